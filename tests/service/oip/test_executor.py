"""Execution of inferences in shared memory: in pieces, each once, within the counted memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from support.cases.backend_calls import WatchedBackend
from support.http.inference_form import binary, document, tensor
from support.segments import PREFIX, Segment, segment
from tensor_round_service.backends import Bytes
from tensor_round_service.content.sources import Parts
from tensor_round_service.engine.engine import Engine
from tensor_round_service.engine.job import Job
from tensor_round_service.oip import codec
from tensor_round_service.oip.executor import (
    PIECE_BYTES,
    SHARED_BYTES,
    InferenceExecutor,
    buffers_for,
    for_each_piece,
)
from tensor_round_service.oip.models import find
from tensor_round_service.oip.plan import plan
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import Registry

RUNS = (0, 1, PIECE_BYTES, PIECE_BYTES + 1, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 4)
HaveDone = Callable[[Callable[[], None]], None]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def nobody(_work: Callable[[], None]) -> None:
    """No thread is ever free."""


def at_once(work: Callable[[], None]) -> None:
    """A thread does it all before anybody else comes to anything."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("nbytes", RUNS)
@pytest.mark.parametrize("have_done", [nobody, at_once])
def test_each_piece_is_done_once(nbytes: int, have_done: HaveDone) -> None:
    done: list[tuple[int, int]] = []

    def work(start: int, end: int, thread: int) -> None:
        assert end - start <= buffers_for(nbytes)[thread]
        done.append((start, end))

    for_each_piece(nbytes, work, have_done)
    done.sort()
    assert [start for start, _ in done] == [0, *(end for _, end in done[:-1])]
    assert done[-1][1] == nbytes


def test_on_threads_that_are_all_taken(pool: ThreadPoolExecutor) -> None:
    """Each waits for no other, though none of them finds a helper."""
    together = threading.Barrier(2, timeout=10)

    def whole() -> int:
        done = []
        together.wait()
        for_each_piece(SHARED_BYTES, lambda start, end, _: done.append(end - start), pool.submit)
        return sum(done)

    futures = [pool.submit(whole) for _ in range(2)]
    assert [future.result(10) for future in futures] == [SHARED_BYTES] * 2


def test_late_helper_does_nothing() -> None:
    late: list[Callable[[], None]] = []
    done = []
    for_each_piece(SHARED_BYTES, lambda start, _end, _thread: done.append(start), late.append)
    (help_,) = late
    before = len(done)
    help_()
    assert len(done) == before


@pytest.mark.parametrize("fails", [0, 1])
def test_a_failure_ends_the_work_of_both(pool: ThreadPoolExecutor, fails: int) -> None:
    together = threading.Barrier(2, timeout=10)
    failed = threading.Event()
    working = []

    def work(start: int, _end: int, thread: int) -> None:
        if start < 2 * PIECE_BYTES:
            together.wait()
            if thread == fails:
                failed.set()
                raise OSError("of this piece")
        failed.wait(10)
        time.sleep(0.02)
        working.append(start)

    with pytest.raises(OSError, match="of this piece"):
        for_each_piece(16 * SHARED_BYTES, work, pool.submit)
    done = len(working)
    assert done <= 2
    time.sleep(0.1)
    assert len(working) == done, "nobody works on"


SIZE = SHARED_BYTES + 4096
SIZES = (0, 8, PIECE_BYTES, PIECE_BYTES + 8, SHARED_BYTES, SIZE)


class Watched(WatchedBackend):
    """Remembers what was allocated too. ``device_from``: where a device would be worth it."""

    def __init__(self, device_from: int | None = None) -> None:
        super().__init__()
        self._device_from = device_from
        self.allocated: list[int] = []

    @property
    def inline_bytes(self) -> int:
        return super().inline_bytes if self._device_from is None else self._device_from - 1

    def allocate(self, nbytes: int) -> Bytes:
        self.allocated.append(nbytes)
        return super().allocate(nbytes)


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(2 * SIZE) as made:
        made.memory.view("<f4")[:] = 0.75
        yield made


@pytest.fixture(params=[None, 8], ids=["host", "device"])
def backend(request: pytest.FixtureRequest) -> Watched:
    return Watched(request.param)


@pytest.fixture
def engine(backend: Watched) -> Iterator[Engine]:
    made = Engine(backend)
    yield made
    made.close()


def at(nbytes: int, offset: int) -> dict[str, Any]:
    return {
        "shared_memory_region": "r",
        "shared_memory_byte_size": nbytes,
        "shared_memory_offset": offset,
    }


def request(form: str, nbytes: int) -> dict[str, Any]:
    inside = tensor("FP32", [nbytes // 4], parameters=at(nbytes, 0))
    outside = binary("FP32", [nbytes // 4], nbytes)
    if form == "out":
        return document(inside, parameters={"binary_data_output": True})
    to = {"in-place": 0}.get(form, SIZE)
    outputs = [{"name": "Y", "parameters": at(nbytes, to)}]
    return document(outside if form == "in" else inside, outputs=outputs)


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("form", ["in-place", "elsewhere", "out", "in"])
def test_all_memory_is_counted_and_a_device_has_tensors_whole(
    engine: Engine, backend: Watched, owned: Segment, form: str, nbytes: int
) -> None:
    memory = PosixSharedMemory(PREFIX, Registry())
    memory.register("r", owned.key, 0, 2 * SIZE)
    work = InferenceExecutor(engine, memory)
    planned = plan(find("round"), codec.read_request(json.dumps(request(form, nbytes)).encode()))
    job = Job(engine.memory)
    received = job.allocate(nbytes) if form == "in" else None
    if received is not None:
        received.view("<f4")[:] = 0.75
    parts = work.run(planned, received, job)
    check(parts, owned, form, nbytes, job)
    job.end(reusable=True)
    assert sum(backend.allocated) == work.buffer_bytes(planned)
    by_pieces = backend.inline_bytes >= nbytes and form != "in"
    assert sum(backend.sizes) == nbytes
    assert max(backend.sizes) == (min(nbytes, PIECE_BYTES) if by_pieces else nbytes)


def check(parts: Parts, owned: Segment, form: str, nbytes: int, job: Job) -> None:
    """The tensor is rounded where it shall be, and nothing else is touched."""
    expected = np.full(SIZE // 2, 0.75, "<f4")
    start = {"in-place": 0, "elsewhere": SIZE, "in": SIZE}.get(form)
    if start is None:
        assert bytes(parts[0]) == np.ones(nbytes // 4, "<f4").tobytes()
    else:
        expected[start // 4 : (start + nbytes) // 4] = 1
    assert owned.memory.tobytes() == expected.tobytes()
    assert job.executed_by == "numpy"
