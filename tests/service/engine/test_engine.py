"""The engine: where a call's output goes, which thread works on it, and how it reports failures.

And which calls are begun before their tensor has all come, and how far they are at each moment.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.cases.backend_calls import WatchedBackend
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed, DeviceOutOfMemory
from tensor_round.contract.functions import ReducePrecision, RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.progress import Pause
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.devices import DeviceBuffer
from tensor_round_service.engine import Engine
from tensor_round_service.engine import engine as module
from tensor_round_service.engine.cost import call_cost
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import memory_limit
from tensor_round_service.engine.overlap import Overlap, is_worthwhile

KIB, MIB = 1 << 10, 1 << 20
VALUES = np.array([-1.5, -0.4, 0.5, 2.5], np.float32)
ROUNDED = np.rint(VALUES)


class Device:
    """A device whose memory is this process's: a buffer's owner is its array."""

    failure: Exception | None = None

    def round_resident(
        self, device: int, call: Call, source: DeviceBuffer, target: DeviceBuffer
    ) -> str:
        if self.failure is not None:
            raise self.failure
        assert isinstance(source.owner, np.ndarray)
        assert isinstance(target.owner, np.ndarray)
        np.rint(source.owner, target.owner)
        return f"device {device}"


class Backend(NumpyBackend):
    """One that fails as it is told to, and that may have a device."""

    device_memory: Any = None

    def __init__(self) -> None:
        super().__init__(1)
        self.failure: Exception | None = None
        self.calls: list[int] = []
        self.info: dict[str, tuple[int, int]] = {"a": (1, 2)}
        self.answers = threading.Event()
        self.answers.set()
        self.questions = 0
        self.is_closed = False

    def device_memory_info(self) -> dict[str, tuple[int, int]]:
        self.questions += 1
        assert self.answers.wait(30)
        if self.failure is not None:
            raise self.failure
        return self.info

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        if self.failure is not None:
            raise self.failure
        self.calls.append(target.size)
        return super().round(call, source, target)

    def close(self) -> None:
        self.is_closed = True
        super().close()


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def engine(backend: Backend) -> Iterator[Engine]:
    made = Engine(backend, 64 * MIB)
    yield made
    made.close()
    assert backend.is_closed


def call(count: int = VALUES.size, strides: tuple[int, ...] | None = None) -> Call:
    layout = Layout.of(BY_NAME["float32"], (count,), strides)
    return Call.packed_output(RoundToIntegral(Rounding.TIES_TO_EVEN), layout)


def floats(memory: Bytes) -> list[float]:
    found: list[float] = memory.view(np.float32).tolist()
    return found


def test_budget_is_given_or_half_of_the_limit(backend: Backend) -> None:
    for given, expected in ((None, memory_limit() // 2), (5, 5)):
        engine = Engine(backend, given)
        assert engine.memory.limit_bytes == expected
        assert engine.backend is backend
        engine.close()


def test_a_call_in_place_writes_where_it_reads(engine: Engine) -> None:
    job, source = Job(engine.memory), VALUES.copy().view(np.uint8)
    assert engine.round(call(), source, job) is source
    assert floats(source) == ROUNDED.tolist()
    assert job.executed_by == engine.backend.name


def test_a_call_out_of_place_writes_into_the_job_s_memory(engine: Engine) -> None:
    job, spread = Job(engine.memory), np.repeat(VALUES, 2)
    source = spread.view(np.uint8)
    found = engine.round(call(strides=(2,)), source[:-4], job)
    assert floats(found) == ROUNDED.tolist()
    assert floats(source) == spread.tolist()


def test_a_given_target_is_written_and_the_source_is_not(engine: Engine) -> None:
    job, source, target = Job(engine.memory), VALUES.view(np.uint8), np.empty(16, np.uint8)
    assert engine.round(call(), source, job, target) is target
    assert floats(target) == ROUNDED.tolist()
    assert floats(source) == VALUES.tolist()


def test_an_overlap_leaves_the_rest_to_the_end(engine: Engine, backend: Backend) -> None:
    count = 4 * MIB
    values = np.linspace(-9, 9, count, dtype=np.float32)
    job, source = Job(engine.memory), values.copy().view(np.uint8)
    progress = engine.overlap(call(count), source, job)
    assert progress is not None
    progress(0)
    assert engine.round(call(count), source, job) is source
    assert backend.calls == [512 * KIB, 16 * MIB - 512 * KIB]
    assert job.executed_by == backend.name
    assert np.array_equal(source.view(np.float32), np.rint(values))


def test_small_tensors_have_no_overlap(engine: Engine) -> None:
    job = Job(engine.memory)
    assert engine.overlap(call(), VALUES.copy().view(np.uint8), job) is None
    assert job.overlap is None


@pytest.mark.parametrize(
    ("failure", "refusal", "level"),
    [
        (MemoryError("none left"), DeviceOutOfMemory, logging.WARNING),
        (RuntimeError("fell off the bus"), BackendFailed, logging.ERROR),
    ],
)
def test_a_backend_s_failure_is_logged_and_may_be_tried_again(
    engine: Engine,
    backend: Backend,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    refusal: type[BackendFailed],
    level: int,
) -> None:
    backend.failure = failure
    with pytest.raises(refusal) as refused:
        engine.round(call(), VALUES.copy().view(np.uint8), Job(engine.memory))
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    assert str(failure) not in str(refused.value)
    assert [record.levelno for record in caplog.records] == [level]
    assert str(failure) in caplog.text


def test_other_failures_are_faults_of_the_program(engine: Engine, backend: Backend) -> None:
    backend.failure = ValueError("a wrong shape")
    with pytest.raises(ValueError, match="a wrong shape"):
        engine.round(call(), VALUES.copy().view(np.uint8), Job(engine.memory))


def test_rounding_in_a_device_s_memory(engine: Engine, backend: Backend) -> None:
    job, target = Job(engine.memory), np.empty_like(VALUES)
    buffers = DeviceBuffer(0, 16, VALUES), DeviceBuffer(0, 16, target)
    with pytest.raises(BackendFailed, match="no device") as refused:
        engine.round_resident(7, call(), *buffers, job)
    assert refused.value.retry_after == 1
    backend.device_memory = Device()
    assert engine.device_memory is backend.device_memory
    engine.round_resident(7, call(), *buffers, job)
    assert target.tolist() == ROUNDED.tolist()
    assert job.executed_by == "device 7"
    backend.device_memory.failure = RuntimeError("an illegal address")
    with pytest.raises(BackendFailed, match="failed on this tensor"):
        engine.round_resident(7, call(), *buffers, job)


def test_a_device_is_asked_for_its_memory_each_time(engine: Engine, backend: Backend) -> None:
    assert asyncio.run(engine.device_memory_info()) == {}
    assert backend.questions == 0, "there is no device yet"
    backend.device_memory = Device()

    async def ask() -> None:
        assert await engine.device_memory_info() == {"a": (1, 2)}
        backend.info = {"a": (2, 2)}
        assert await engine.device_memory_info() == {"a": (2, 2)}
        backend.failure = RuntimeError("it fell off the bus")
        assert await engine.device_memory_info() == {}

    asyncio.run(ask())
    assert backend.questions == 3


def test_a_device_that_is_busy_is_asked_once_and_not_waited_for(
    engine: Engine, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.device_memory = Device()
    backend.answers.clear()

    async def ask() -> None:
        monkeypatch.setattr(module, "DEVICE_SECONDS", 0.01)
        for _ in range(3):
            assert await engine.device_memory_info() == {}
        backend.answers.set()
        monkeypatch.setattr(module, "DEVICE_SECONDS", 30)
        assert await engine.device_memory_info() == {"a": (1, 2)}

    asyncio.run(ask())
    assert backend.questions == 1


@pytest.mark.parametrize(
    ("nbytes", "cost", "limit", "is_inline"),
    [
        (256 * KIB, None, MIB, True),
        (256 * KIB + 1, None, MIB, False),
        (MIB, 256 * KIB, MIB, True),
        (MIB, 256 * KIB + 1, MIB, False),
        (8, 256 * KIB + 1, MIB, False),
        (MIB, 0, MIB - 1, False),
        (9, None, 8, False),
    ],
)
def test_short_work_is_done_at_once_and_long_work_on_a_thread(
    engine: Engine,
    backend: Backend,
    nbytes: int,
    cost: int | None,
    limit: int,
    is_inline: bool,
) -> None:
    backend.inline_bytes = limit
    thread = asyncio.run(engine.run(threading.current_thread, nbytes, cost))
    assert isinstance(thread, threading.Thread)
    assert (thread is threading.main_thread()) is is_inline


@pytest.mark.parametrize("nbytes", [0, MIB], ids=["inline", "thread"])
def test_the_times_of_work_are_the_job_s(engine: Engine, nbytes: int) -> None:
    job = Job(engine.memory)
    began = time.perf_counter()
    asyncio.run(engine.run(lambda: time.sleep(0.02), nbytes, job=job))
    elapsed = time.perf_counter() - began
    assert job.execute_seconds >= 0.02
    assert job.queue_seconds >= 0
    assert job.queue_seconds + job.execute_seconds <= elapsed
    assert (job.queue_seconds == 0) is (nbytes == 0)


def test_the_times_of_work_that_fails_are_measured_too(engine: Engine) -> None:
    def fail() -> None:
        time.sleep(0.02)
        raise ValueError("no")

    job = Job(engine.memory)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(engine.run(fail, MIB, job=job))
    assert job.execute_seconds >= 0.02


@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize(("cost", "is_inline"), [(256 * KIB, True), (256 * KIB + 1, False)])
def test_slow_work_is_timed_if_that_is_asked_for(
    engine: Engine, cost: int, is_inline: bool, is_timed: bool
) -> None:
    def work(_: Pause) -> threading.Thread:
        time.sleep(0.02)
        return threading.current_thread()

    job = Job(engine.memory)
    began = time.perf_counter()
    thread = asyncio.run(engine.run_slowly(work, cost, job, is_timed=is_timed))
    took = time.perf_counter() - began
    assert isinstance(thread, threading.Thread)
    assert (thread is threading.current_thread()) is is_inline
    assert (job.execute_seconds > 0) is is_timed
    assert is_timed or job.queue_seconds == 0
    if is_timed:
        assert 0.02 <= job.queue_seconds + job.execute_seconds <= took
        assert job.queue_seconds >= 0
        assert (job.queue_seconds > 0) is not is_inline


def test_submitted_work_runs_on_a_thread_and_a_close_waits_for_it(backend: Backend) -> None:
    engine, threads = Engine(backend, MIB), []

    def work() -> None:
        time.sleep(0.05)
        threads.append(threading.current_thread())

    engine.submit(work)
    engine.close()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    engine.submit(work)  # no thread takes it any more, which is no failure
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("dtype", "share"),
    [("uint8", 1), ("float8_e5m2", 1), ("float16", 1), ("float32", 4), ("float64", 4)],
)
def test_wide_types_cost_a_quarter(dtype: str, share: int) -> None:
    layout = Layout.of(BY_NAME[dtype], (100,))
    asked = Call.packed_output(RoundToIntegral(Rounding.TIES_TO_EVEN), layout)
    assert call_cost(asked) == layout.byte_length // share


def test_what_numpy_converts_slowly_costs_more() -> None:
    """So that it is not done on the event loop, nor in pieces while a tensor arrives."""
    pairs = [("float32", "float8_e5m2"), ("float32", "int8"), ("int64", "float32")]
    costs = [call_cost(converting(source, target, 100)) for source, target in pairs]
    assert costs == sorted(set(costs))
    assert call_cost(converting("float32", "float32", 100)) == 100


def converting(source: str, target: str, count: int) -> Call:
    return Call.converting(Layout.of(BY_NAME[source], (count,)), target)


def test_idle_memory_goes_back_to_the_system_in_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.2)
    engine.memory.release(0, [np.empty(MIB, np.uint8)])

    async def wait() -> None:
        task = asyncio.create_task(engine.release_idle_memory())
        while engine.memory.pooled_bytes:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(wait(), 30))


MIN_BYTES = 16 * MIB
COUNT = MIN_BYTES // 4
PIECE = 512 * KIB
#: Of three pieces and one element.
SIZE = 3 * PIECE + 4
#: Bytes up to which no device is waited for.
ANY = NumpyBackend.inline_bytes


def call_from(input: Layout, output: Layout | None = None) -> Call:
    return Call(RoundToIntegral(Rounding.TIES_TO_EVEN), input, output or input, input.byte_length)


def layout(
    dtype: str = "float32",
    shape: tuple[int, ...] = (COUNT,),
    strides: tuple[int, ...] | None = None,
    byte_length: int | None = None,
) -> Layout:
    return Layout.of(BY_NAME[dtype], shape, strides, byte_length)


@pytest.mark.parametrize(
    ("asked", "suited", "inline_bytes"),
    [
        pytest.param(call_from(layout()), True, MIN_BYTES, id="large"),
        pytest.param(call_from(layout()), False, MIN_BYTES - 1, id="waits-for-a-device"),
        pytest.param(call_from(layout(shape=(COUNT - 1,))), False, ANY, id="small"),
        pytest.param(call_from(layout(shape=(2, COUNT), strides=(1, 2))), True, ANY, id="columns"),
        pytest.param(call_from(layout("int32")), False, ANY, id="integers"),
        pytest.param(call_from(layout(byte_length=MIN_BYTES + 4)), False, ANY, id="padded"),
        pytest.param(
            call_from(layout(shape=(2, COUNT), strides=(1, 2)), layout(shape=(2, COUNT))),
            False,
            ANY,
            id="moved",
        ),
        pytest.param(converting("float32", "float8_e5m2", COUNT), True, ANY, id="narrower"),
        pytest.param(converting("float32", "float64", COUNT), False, ANY, id="wider"),
        pytest.param(converting("int64", "float32", COUNT // 2), False, ANY, id="slow"),
    ],
)
def test_overlap_suits_large_contiguous_calls(asked: Call, suited: bool, inline_bytes: int) -> None:
    backend = NumpyBackend(1)
    backend.inline_bytes = inline_bytes
    assert is_worthwhile(backend, asked) is suited


class Progress:
    """An overlap on a tensor of ``SIZE`` bytes, and what other requests have reserved."""

    def __init__(self, backend: WatchedBackend) -> None:
        self.backend = backend
        self.others = 0
        self.values = np.linspace(-3, 3, SIZE // 4, dtype=np.float32)
        self.source = self.values.copy().view(np.uint8)
        self.overlap = Overlap(
            backend, call_from(layout(shape=(SIZE // 4,))), self.source, lambda: self.others
        )

    def rounded(self) -> int:
        """The bytes that are rounded, from the start; all others are as they were."""
        found = self.source.view(np.float32)
        done = self.overlap.done // 4
        assert np.array_equal(found[:done], np.rint(self.values[:done]))
        assert np.array_equal(found[done:], self.values[done:])
        return self.overlap.done


@pytest.fixture
def progress() -> Iterator[Progress]:
    backend = WatchedBackend()
    yield Progress(backend)
    backend.close()


def test_a_piece_is_rounded_once_its_last_byte_is_there(progress: Progress) -> None:
    overlap = progress.overlap
    assert (overlap.done, overlap.seconds) == (0, 0.0)
    for piece in range(3):
        overlap.progress(SIZE - (piece + 1) * PIECE + 1)
        assert progress.rounded() == piece * PIECE
        overlap.progress(SIZE - (piece + 1) * PIECE)
        assert progress.rounded() == (piece + 1) * PIECE
    assert progress.backend.sizes == [PIECE] * 3
    overlap.progress(0)
    assert progress.rounded() == 3 * PIECE


def test_it_rests_while_others_have_more_than_a_mebibyte(progress: Progress) -> None:
    progress.others = MIB + 1
    progress.overlap.progress(0)
    assert progress.rounded() == 0
    progress.others = MIB
    progress.overlap.progress(0)
    assert progress.rounded() == PIECE


@pytest.mark.parametrize("pieces", range(4))
def test_the_rest_begins_after_the_last_rounded_piece(progress: Progress, pieces: int) -> None:
    for _ in range(pieces):
        progress.overlap.progress(0)
    assert progress.rounded() == pieces * PIECE
    assert progress.overlap.finish() == "numpy"
    assert np.array_equal(progress.source.view(np.float32), np.rint(progress.values))


@pytest.mark.parametrize("target", ["bfloat16", "float8_e5m2", "float4_e2m1fn", "float32"])
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_narrower_results_lie_behind_each_other(
    progress: Progress, target: str, pieces: int
) -> None:
    dtype, count = BY_NAME[target], progress.values.size
    function = ReducePrecision(Rounding.TIES_TO_EVEN, 8, 7) if target == "float32" else None
    call = converting("float32", target, count)
    if function is not None:
        call = Call.packed_output(function, call.input)
    expected = np.empty(call.output.byte_length, np.uint8)
    progress.backend.round(call, progress.source.copy(), expected)
    progress.overlap.call = call
    for _ in range(pieces):
        progress.overlap.progress(0)
    progress.overlap.finish()
    assert np.array_equal(progress.source[: dtype.nbytes(count)], expected)


def test_the_time_of_all_pieces_is_measured(progress: Progress) -> None:
    began = time.perf_counter()
    seconds = [0.0]
    for _ in range(3):
        progress.overlap.progress(0)
        seconds.append(progress.overlap.seconds)
    assert seconds == sorted(set(seconds))
    assert seconds[-1] <= time.perf_counter() - began


def test_failure_ends_the_pieces_and_is_raised_at_the_end(progress: Progress) -> None:
    def fail(nbytes: int) -> None:
        raise RuntimeError(f"{nbytes} bytes are too many")

    progress.backend.before = fail
    progress.overlap.progress(0)
    progress.backend.before = bool
    for _ in range(2):
        progress.overlap.progress(0)
        assert progress.overlap.done == PIECE
    assert progress.backend.sizes == []
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{PIECE} bytes"):
            progress.overlap.finish()
