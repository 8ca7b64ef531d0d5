"""Clients that cut their objects, or leave the system no memory for them; workers on a full disk.

A service of one process: what ends that is the end of the service.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import EVEN, OF_X, Outcome, X, binary, document
from support.segments import OBJECTS, PREFIX, Segment, segment
from support.services.server import Service
from support.services.variants import NBYTES, SmallShmService, may_mount
from support.services.workers import replaced_after
from support.small_disk import small_disk
from support.v2.callers import Caller
from support.v2.regions import TRIES, into, register, registered, source, unregister

pytestmark = pytest.mark.slow

SIZE = 8 << 20  # so that two threads share it
GIVEN = np.tile(np.array([0.75, -1.5, 2.5, 1e9], "<f4"), SIZE // 16)
RIGHT = np.rint(GIVEN)
SECONDS = 0.6


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--shared-memory-prefix", PREFIX, "--backend", "numpy")
    with Service(*options) as running:
        yield running


def put(path: Path, x: np.ndarray[Any, Any]) -> None:
    """Without a mapping: it is cut here, too."""
    with path.open("rb+") as file:
        file.write(x.tobytes())


@contextlib.contextmanager
def cut_again_and_again(path: Path) -> Iterator[list[int]]:
    """Yields the lengths so far; it has its own again in between, and at the end."""
    stop, cuts = threading.Event(), list[int]()

    def cut() -> None:
        for nbytes in itertools.cycle((0, 4096, SIZE // 2, SIZE - 4)):
            if stop.is_set():
                return
            os.truncate(path, nbytes)
            cuts.append(nbytes)
            time.sleep(0.0005 if len(cuts) % 3 else 0.003)
            os.truncate(path, SIZE)
            put(path, GIVEN)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield cuts
    finally:
        stop.set()
        thread.join()


def is_right(outcome: Outcome, *, has_bytes: bool) -> bool:
    """Whether it is a sound answer, and not one of the refusals that may be here."""
    if outcome.status == 400:
        assert "register it again" in outcome.error
        return False
    assert len(outcome.payload) == has_bytes * SIZE
    if has_bytes:
        found = np.frombuffer(outcome.payload, "<f4")
        # What was cut off and is there again is zeros until its client has written it.
        assert ((found == RIGHT) | (found == 0)).all()
    return True


CUT, INTO_CUT = source(SIZE, name="cut"), into(SIZE, name="cut")
FORMS: dict[str, tuple[dict[str, Any], bytes | None]] = {
    "in-place": (document(CUT, outputs=INTO_CUT), None),
    "from-it": (document(CUT, outputs=into(SIZE, name="other")), None),
    "to-it": (document(source(SIZE, name="other"), outputs=INTO_CUT), None),
    "out": (document(CUT), None),
    "in": (document(binary("FP32", [SIZE // 4], SIZE), outputs=INTO_CUT), GIVEN.tobytes()),
}


@pytest.fixture
def objects(caller: Caller) -> Iterator[tuple[Segment, Segment]]:
    with segment(SIZE) as cut, segment(SIZE) as other:
        for name, made in (("cut", cut), ("other", other)):
            put(made.path, GIVEN)
            assert register(caller, name, made.key, SIZE).status == 200
        yield cut, other
        assert unregister(caller).status == 200


@pytest.mark.parametrize("form", FORMS)
def test_an_object_that_is_cut_while_it_is_rounded(
    service: Service, caller: Caller, objects: tuple[Segment, Segment], form: str
) -> None:
    cut, other = objects
    request, payload = FORMS[form]
    for _ in range(3):
        is_right(caller.infer(request, payload), has_bytes=form == "out")
    files, memory = open_files(service), service.rss()
    refused = []
    with cut_again_and_again(cut.path) as cuts:
        end = time.monotonic() + SECONDS
        # On a loaded machine few requests meet it cut in that time.
        while time.monotonic() < end or len(cuts) < 10 or not any(refused):
            assert time.monotonic() < end + 60, "of so many some must have met it cut"
            outcome = caller.infer(request, payload)
            refused.append(not is_right(outcome, has_bytes=form == "out"))
            assert service.get("/livez").status == 200
    put(cut.path, GIVEN)
    put(other.path, GIVEN)
    assert is_right(caller.infer(request, payload), has_bytes=form == "out")
    where = {"in-place": cut, "from-it": other, "to-it": cut, "in": cut}.get(form)
    if where is not None:
        assert where.path.read_bytes() == RIGHT.tobytes()
    assert open_files(service) <= files
    assert service.rss() < memory + (16 << 20)


def open_files(service: Service) -> int:
    """Those of files; connections are closed a little later than their answers come."""
    found = 0
    for link in Path(f"/proc/{service.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # one that has just been closed
            found += str(OBJECTS) in os.readlink(link)
    return found


@pytest.mark.skipif(not may_mount(), reason="no /dev/shm of a service's own may be mounted here")
def test_no_memory_for_an_object(call: type[Caller]) -> None:
    with SmallShmService("--shared-memory-prefix", PREFIX) as service:
        caller = call(service)
        sparse, filler = (service.objects / (PREFIX + name) for name in ("sparse", "filler"))
        with sparse.open("wb") as file:
            file.truncate(NBYTES // 2)
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        assert register(caller, "r", sparse.name, NBYTES // 2).status == 200
        request = document(OF_X, outputs=into(X.nbytes))
        for _ in range(3):
            refused = caller.infer(request, X.tobytes())
            assert (refused.status, "no memory" in refused.error) == (503, True)
            assert refused.retry_after >= 1
            whole = document(source(NBYTES // 2), outputs=into(NBYTES // 2))
            assert caller.infer(whole).status == 503
        filler.unlink()
        assert caller.infer(request, X.tobytes()).status == 200
        assert sparse.read_bytes()[: X.nbytes] == EVEN.tobytes()


def test_workers_on_a_full_disk(call: type[Caller], tmp_path: Path) -> None:
    options = ("--workers", "2", "--shared-memory-prefix", PREFIX)
    with small_disk(tmp_path, 4 << 20) as disk, segment(X.nbytes) as owned:
        if not disk.is_mounted:
            pytest.skip("no disk may be mounted here, and RLIMIT_FSIZE limits one process")
        with Service(*options, environment={"TMPDIR": str(disk.folder)}) as service:
            caller = call(service)

            def check() -> None:
                for _ in range(TRIES):
                    outcome = caller.infer(document(OF_X), X.tobytes())
                    assert outcome.payload == EVEN.tobytes()
                    refused = register(caller, "r", owned.key, X.nbytes)
                    assert (refused.status, "cannot be written" in refused.error) == (503, True)
                    assert refused.retry_after >= 1
                    assert registered(caller).head == []
                    assert caller.ask("ModelStatistics", name="round").status == 200

            with disk.full():
                check()
                # Those that come while it is full go on in the files of those that were killed.
                replaced_after(service)
                replaced_after(service)
                check()
            assert register(caller, "r", owned.key, X.nbytes).status == 200
        log = "".join(service.log)
        assert not re.search("(statistics|metrics): No space left", log)
        assert log.count("ended with") == log.count("ended with SIGKILL") == 2
        assert "Traceback" not in log
