"""Clients that cut their objects, or leave the system no memory for them, while they are rounded.

A service of one process: what ends that is the end of the service.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import EVEN, Answer, X, binary, document, error_of, infer, tensor
from support.segments import OBJECTS, PREFIX, Segment, segment
from support.services.server import Reply, Service
from support.services.small_shm_service import NBYTES, SmallShmService, may_mount

SIZE = 8 << 20  # so that two threads share it
GIVEN = np.tile(np.array([0.75, -1.5, 2.5, 1e9], "<f4"), SIZE // 16)
RIGHT = np.rint(GIVEN)
SECONDS = 1.0


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX, "--backend", "numpy") as running:
        yield running


def register(service: Service, name: str, key: str, nbytes: int) -> None:
    body = json.dumps({"key": key, "offset": 0, "byte_size": nbytes}).encode()
    path = f"/v2/systemsharedmemory/region/{name}/register"
    assert service.request("POST", path, body).status == 200


def at(name: str, nbytes: int) -> dict[str, Any]:
    return {"shared_memory_region": name, "shared_memory_byte_size": nbytes}


def source(name: str, nbytes: int) -> dict[str, Any]:
    return tensor("FP32", [nbytes // 4], parameters=at(name, nbytes))


def into(name: str, nbytes: int) -> list[dict[str, Any]]:
    return [{"name": "Y", "parameters": at(name, nbytes)}]


def put(path: Path, x: np.ndarray[Any, Any]) -> None:
    """Without a mapping: it is cut here, too."""
    with path.open("rb+") as file:
        file.write(x.tobytes())


@contextlib.contextmanager
def cut_again_and_again(path: Path) -> Iterator[Callable[[], int]]:
    """How often by now; it has its length again in between, and at the end."""
    stop, times = threading.Event(), itertools.count()

    def cut() -> None:
        for nbytes in itertools.cycle((0, 4096, SIZE // 2, SIZE - 4)):
            if stop.is_set():
                return
            os.truncate(path, nbytes)
            time.sleep(0.0005 if next(times) % 3 else 0.003)
            os.truncate(path, SIZE)
            put(path, GIVEN)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield lambda: next(times)
    finally:
        stop.set()
        thread.join()


def is_right(reply: Reply, *, has_bytes: bool) -> bool:
    """Whether it is a sound answer, and not one of the refusals that may be here."""
    if reply.status == 400:
        assert "register it again" in error_of(reply)
        return False
    answer = Answer.of(reply)
    if has_bytes:
        found = np.frombuffer(answer.payload, "<f4")
        # What was cut off and is there again is zeros until its client has written it.
        assert ((found == RIGHT) | (found == 0)).all()
    return True


FORMS: dict[str, tuple[dict[str, Any], bytes | None]] = {
    "in-place": (document(source("cut", SIZE), outputs=into("cut", SIZE)), None),
    "from-it": (document(source("cut", SIZE), outputs=into("other", SIZE)), None),
    "to-it": (document(source("other", SIZE), outputs=into("cut", SIZE)), None),
    "out": (document(source("cut", SIZE), parameters={"binary_data_output": True}), None),
    "in": (document(binary("FP32", [SIZE // 4], SIZE), outputs=into("cut", SIZE)), GIVEN.tobytes()),
}


@pytest.fixture
def objects(service: Service) -> Iterator[tuple[Segment, Segment]]:
    with segment(SIZE) as cut, segment(SIZE) as other:
        for name, made in (("cut", cut), ("other", other)):
            put(made.path, GIVEN)
            register(service, name, made.key, SIZE)
        yield cut, other
        service.request("POST", "/v2/systemsharedmemory/unregister")


@pytest.mark.parametrize("form", FORMS)
def test_an_object_that_is_cut_while_it_is_rounded(
    service: Service, objects: tuple[Segment, Segment], form: str
) -> None:
    cut, other = objects
    request, payload = FORMS[form]
    for _ in range(3):
        is_right(infer(service, request, payload), has_bytes=form == "out")
    files, memory = open_files(service), service.rss()
    refused = []
    with cut_again_and_again(cut.path) as times:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            reply = infer(service, request, payload)
            refused.append(not is_right(reply, has_bytes=form == "out"))
            assert service.get("/livez").status == 200
        assert times() > 10
    assert any(refused), "of so many some must have met it cut"
    put(cut.path, GIVEN)
    put(other.path, GIVEN)
    assert is_right(infer(service, request, payload), has_bytes=form == "out")
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
def test_no_memory_for_an_object() -> None:
    with SmallShmService("--shared-memory-prefix", PREFIX) as service:
        sparse, filler = (service.objects / (PREFIX + name) for name in ("sparse", "filler"))
        with sparse.open("wb") as file:
            file.truncate(NBYTES // 2)
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        register(service, "r", sparse.name, NBYTES // 2)
        request = document(binary("FP32", [10], X.nbytes), outputs=into("r", X.nbytes))
        for _ in range(3):
            refused = infer(service, request, X.tobytes())
            assert (refused.status, "no memory" in error_of(refused)) == (503, True)
            assert refused.headers["Retry-After"]
            whole = document(source("r", NBYTES // 2), outputs=into("r", NBYTES // 2))
            assert infer(service, whole).status == 503
        filler.unlink()
        assert infer(service, request, X.tobytes()).status == 200
        assert sparse.read_bytes()[: X.nbytes] == EVEN.tobytes()
