"""The engine: where a call's output goes, which thread works on it, and how it reports failures."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed, DeviceOutOfMemory
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.progress import Pause
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.devices import DeviceBuffer
from tensor_round_service.engine import Engine
from tensor_round_service.engine import engine as module
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import memory_limit

KIB, MIB = 1 << 10, 1 << 20
VALUES = np.array([-1.5, -0.4, 0.5, 2.5], np.float32)
ROUNDED = np.rint(VALUES)
NOTHING = np.empty(0, np.uint8)


class Device:
    """A device whose memory is this process's: a buffer's owner is its array."""

    failure: Exception | None = None

    def round_resident(
        self, device: int, call: Call, source: DeviceBuffer, target: DeviceBuffer, given: Bytes
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
        engine.round_resident(7, call(), *buffers, NOTHING, job)
    assert refused.value.retry_after == 1
    backend.device_memory = Device()
    assert engine.device_memory is backend.device_memory
    engine.round_resident(7, call(), *buffers, NOTHING, job)
    assert target.tolist() == ROUNDED.tolist()
    assert job.executed_by == "device 7"
    backend.device_memory.failure = RuntimeError("an illegal address")
    with pytest.raises(BackendFailed, match="failed on this tensor"):
        engine.round_resident(7, call(), *buffers, NOTHING, job)


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
