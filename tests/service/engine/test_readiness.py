"""Ready means that the backend has just rounded right; one that does not is told of in time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from tensor_round.contract.call import RoundCall
from tensor_round.contract.errors import BackendFailed, Draining
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine import readiness
from tensor_round_service.engine.readiness import ProcessLifecycle, Readiness


class Backend(NumpyBackend):
    """One that counts, and rounds the patterns of ``wrong`` wrongly."""

    wrong: tuple[int, ...] = ()

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        self.calls += 1
        found = np.isin(source.view(np.uint32), self.wrong)
        name = super().round(call, source, target)
        target.view(np.uint32)[found] ^= 1
        return name


class Idle(Backend):
    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        return self.name


class Broken(Backend):
    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        raise OSError("the device fell off the bus")


class Lost(Backend):
    is_healthy = False


class Stuck(Backend):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.free = threading.Event()

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        self.asked += 1
        self.free.wait(30)
        return super().round(call, source, target)


@pytest.mark.parametrize(
    ("kind", "says", "logged"),
    [
        (Idle, "wrongly", "the numpy backend rounds wrongly"),
        (Broken, "wrongly", "the device fell off the bus"),
        (Lost, "the backend is lost", ""),
    ],
)
def test_a_backend_that_does_not_round_is_not_ready(
    kind: type[Backend], says: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend = kind()
    with pytest.raises(BackendFailed, match=says) as refused:
        asyncio.run(Readiness(backend, ProcessLifecycle()).check())
    assert refused.value.retry_after == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * bool(logged)
    assert logged in caplog.text
    assert backend.calls == 0  # a lost one is not asked


def test_draining_process_is_not_ready_whatever_its_backend() -> None:
    backend = Backend()
    lifecycle = ProcessLifecycle()
    ready = Readiness(backend, lifecycle)
    lifecycle.draining = True
    with pytest.raises(Draining) as refused:
        asyncio.run(ready.check())
    assert refused.value.retry_after == 1
    assert backend.calls == 0


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in readiness._PATTERNS])
def test_each_delicate_value_is_tried(pattern: int) -> None:
    backend = Backend()
    backend.wrong = (pattern,)
    with pytest.raises(BackendFailed, match="wrongly"):
        asyncio.run(Readiness(backend, ProcessLifecycle()).check())


class Clock:
    """A clock that stands, and is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_a_proof_is_as_good_as_new_for_a_second(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, backend = Clock(), Backend()
    monkeypatch.setattr(readiness, "time", clock)
    ready = Readiness(backend, ProcessLifecycle())

    async def ask() -> None:
        await asyncio.gather(*(ready.check() for _ in range(50)))
        await ready.check()

    for passed, calls in ((0, 1), (1.0, 1), (0.001, 2), (1.0, 2)):
        clock.now += passed
        asyncio.run(ask())
        assert backend.calls == calls
    assert caplog.records == []


def test_a_stuck_backend_has_a_second_and_a_half_and_may_recover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, backend = Clock(), Stuck()
    monkeypatch.setattr(readiness, "time", clock)
    waits: list[float] = []
    wait = asyncio.wait

    async def watched(futures: list[asyncio.Future[bool]], timeout: float) -> None:
        waits.append(timeout)
        await wait(futures, timeout=0)

    monkeypatch.setattr(asyncio, "wait", watched)
    ready = Readiness(backend, ProcessLifecycle())

    async def ask() -> None:
        for passed in (0, 1, 0.5, 1):
            clock.now += passed
            with pytest.raises(BackendFailed):
                await ready.check()

    asyncio.run(ask())
    assert waits == [1.5, 0.5, 0, 0]
    assert {t.daemon for t in threading.enumerate() if t.name == "tensor-round-proof"} == {True}
    assert backend.asked == 1  # not again as long as it does not come back
    backend.free.set()
    deadline = time.monotonic() + 30
    while True:
        clock.now += 2
        with suppress(BackendFailed):
            asyncio.run(ready.check())
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
