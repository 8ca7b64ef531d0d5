"""Ready means that the backend has just rounded right; one that does not is told of in time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tensor_round.contract.call import RoundCall
from tensor_round.contract.errors import BackendFailed, Draining
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine import readiness
from tensor_round_service.engine.readiness import ProcessLifecycle, Readiness


class Backend(NumpyBackend):
    """One that can be made to fail, and counts."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        self.calls += 1
        return super().round(call, source, target)


class Wrong(Backend):
    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        name = super().round(call, source, target)
        target[-1] ^= 1
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
        self.free = threading.Event()

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        self.free.wait(30)
        return super().round(call, source, target)


def test_a_sound_backend_is_asked_once_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend()
    ready = Readiness(backend, ProcessLifecycle())

    async def ask() -> None:
        await asyncio.gather(*(ready.check() for _ in range(50)))
        await ready.check()

    asyncio.run(ask())
    assert backend.calls == 1
    monkeypatch.setattr(readiness, "PROOF_VALID_SECONDS", 0)
    asyncio.run(ask())
    assert backend.calls > 1


@pytest.mark.parametrize("kind", [Wrong, Idle, Broken, Lost])
def test_a_backend_that_does_not_round_is_not_ready(kind: type[Backend]) -> None:
    ready = Readiness(kind(), ProcessLifecycle())
    with pytest.raises(BackendFailed) as refused:
        asyncio.run(ready.check())
    assert refused.value.retry_after


def test_a_stuck_backend_is_told_of_in_time_and_may_recover() -> None:
    backend = Stuck()
    ready = Readiness(backend, ProcessLifecycle())

    def seconds_to_refusal() -> float:
        began = time.monotonic()
        with pytest.raises(BackendFailed):
            asyncio.run(ready.check())
        return time.monotonic() - began

    first = seconds_to_refusal()
    assert first < 10
    # Known by now, and not asked again as long as it does not come back.
    assert seconds_to_refusal() < first / 2
    backend.free.set()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            asyncio.run(ready.check())
            break
        except BackendFailed:
            time.sleep(0.01)
    asyncio.run(ready.check())


def test_draining_is_said_without_asking_the_backend() -> None:
    backend = Backend()
    lifecycle = ProcessLifecycle()
    ready = Readiness(backend, lifecycle)
    lifecycle.draining = True
    with pytest.raises(Draining) as refused:
        asyncio.run(ready.check())
    assert refused.value.retry_after
    assert backend.calls == 0
