"""A backend's results are judged: readiness, digests beside the published ones, differences."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest

from tensor_round.contract.call import Call
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed, Draining, InvalidDescriptor
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes, Round
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine import readiness
from tensor_round_service.engine.differences import check_dense, compared
from tensor_round_service.engine.digests import report
from tensor_round_service.engine.readiness import ProcessLifecycle, Readiness
from tensor_round_verify.reference import rounded


class Backend(NumpyBackend):
    """One that counts, and rounds the patterns of ``wrong`` wrongly."""

    wrong: tuple[int, ...] = ()

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        self.calls += 1
        found = np.isin(source.view(np.uint32), self.wrong)
        name = super().round(call, source, target)
        target.view(np.uint32)[found] ^= 1
        return name


class Idle(Backend):
    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        return self.name


class Broken(Backend):
    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        raise OSError("the device fell off the bus")


class Lost(Backend):
    is_healthy = False


class Stuck(Backend):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.free = threading.Event()

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
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


class Two(NumpyBackend):
    """A backend with a second arithmetic."""

    def __init__(self, other: Round) -> None:
        super().__init__(1)
        self.other = other

    def arithmetics(self) -> Mapping[str, Round]:
        return {**super().arithmetics(), "other": self.other}


def test_a_right_backend_conforms_with_every_published_digest() -> None:
    backend = NumpyBackend(1)
    found = report(backend)
    assert found["conforms"] is True
    assert found["backends"].keys() == {"numpy"}
    cells = {
        (dtype, rounding): cell
        for dtype, row in found["backends"]["numpy"].items()
        for rounding, cell in row.items()
    }
    assert cells == {
        key: {"sha256": published, "matches_published": True} for key, published in DIGESTS.items()
    }


def test_one_wrong_result_of_one_arithmetic_is_found_where_it_is() -> None:
    def wrong(call: Call, source: Bytes, target: Bytes) -> str:
        name = backend.round(call, source, target)
        if (call.input.dtype.name, call.rounding) == ("bfloat16", Rounding.TOWARD_ZERO):
            target[-1] ^= 1
        return name

    backend = Two(wrong)
    found = report(backend)
    assert found["conforms"] is False
    assert [
        (name, dtype, rounding)
        for name, table in found["backends"].items()
        for dtype, row in table.items()
        for rounding, cell in row.items()
        if not cell["matches_published"]
    ] == [("other", "bfloat16", "toward_zero")]


@pytest.mark.parametrize("failure", [MemoryError("none"), RuntimeError("the device is lost")])
def test_a_backend_that_fails_may_be_asked_again(failure: Exception) -> None:
    def broken(call: Call, source: Bytes, target: Bytes) -> str:
        raise failure

    backend = Two(broken)
    with pytest.raises(BackendFailed, match="test patterns") as refused:
        report(backend)
    assert refused.value.retry_after == 1
    assert refused.value.__cause__ is failure


#: More than are compared at once.
COUNT = 100_000


@pytest.mark.parametrize("order", ["<", ">"])
def test_differences_are_counted_and_found_in_the_whole_tensor(order: str) -> None:
    values = np.arange(COUNT, dtype=np.float32)
    places = [COUNT // 2, COUNT - 1]
    values[places] = 0.5, -2.25
    shape = (COUNT // 10, 10)
    elements = values.astype(f"{order}f4").reshape(shape)
    before, pauses = elements.copy(), list[None]()
    found = compared(elements, pause=lambda: pauses.append(None))
    assert np.array_equal(elements, before)
    assert 1 < len(pauses) < 10, "there is one after each block"
    assert (found["dtype"], found["shape"], found["elements"]) == ("float32", shape, COUNT)
    bits = values[places].view(np.uint32)
    results = {rounding.value: rounded(bits, "float32", rounding.value) for rounding in Rounding}
    expected = {
        pair: [
            tuple(map(int, np.unravel_index(place, shape)))
            for at, place in enumerate(places)
            if results[pair[0]][at] != results[pair[1]][at]
        ]
        for pair in combinations(results, 2)
    }
    told = {
        tuple(pair["roundings"]): sorted(
            example["index"] for one in pair["classes"].values() for example in one["first"]
        )
        for pair in found["pairs"]
    }
    assert told == expected
    for pair in found["pairs"]:
        assert pair["different"] == len(expected[tuple(pair["roundings"])])


def test_a_rank_that_no_operator_accepts_is_refused() -> None:
    with pytest.raises(InvalidDescriptor, match="at most 32 dimensions"):
        compared(np.zeros((1,) * 33, np.float32))


def test_gaps_and_repeated_elements_are_refused() -> None:
    dtype = BY_NAME["float32"]
    check_dense(Layout.of(dtype, (2, 3)))
    check_dense(Layout.of(dtype, (2, 3), (1, 2)))
    for strides in ((4, 1), (0, 1)):
        with pytest.raises(InvalidDescriptor) as refused:
            check_dense(Layout.of(dtype, (2, 3), strides))
        (fault,) = refused.value.faults
        assert fault.loc == ("strides",)
        assert "no gaps" in fault.msg
