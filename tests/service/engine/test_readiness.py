"""A backend's results are judged: readiness, digests beside the published ones, differences."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from support.cases import linear_calls
from support.cases.exact_conversions import off_the_wire
from support.services.hosted import HostedService
from tensor_round.contract.call import Call
from tensor_round.contract.cast_digests import CAST_DIGESTS, FUNCTIONS
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed, Draining, InvalidDescriptor
from tensor_round.contract.functions import Convert
from tensor_round.contract.layout import Layout
from tensor_round.contract.quantization_digests import MEMBERS, PUBLISHED, published
from tensor_round.contract.rounding import Rounding
from tensor_round_service.app import create_app
from tensor_round_service.backends import Bytes, Round, select
from tensor_round_service.backends.cpu import conversions, loops
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.known_results import KNOWN, KNOWN_CONVERSIONS, Known
from tensor_round_service.engine import readiness
from tensor_round_service.engine.differences import check_dense, compared
from tensor_round_service.engine.digests import Tables, converted, report, roundings
from tensor_round_service.engine.readiness import ProcessLifecycle, Readiness, rounds_correctly
from tensor_round_service.failures import CannotStart
from tensor_round_service.service_types import PatternDigest
from tensor_round_service.settings import Settings
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.reference import rounded


class Backend(NumpyBackend):
    """One that counts, and has one wrong bit in a byte of the results of one call."""

    wrong: tuple[Call, int] | None = None

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        self.calls += 1
        name = super().round(call, source, target)
        if self.wrong and self.wrong[0] is call:
            target[self.wrong[1]] ^= 1
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
        self.begun, self.free = threading.Event(), threading.Event()

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        self.asked += 1
        self.begun.set()
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


def named(known: Known) -> str:
    function, source, target = known.call.function, known.call.input, known.call.output
    saturated = "-saturated" * getattr(function, "saturates", False)
    return f"{source.dtype.name}-{target.dtype.name}-{function.rounding}{saturated}"


@pytest.mark.parametrize("known", KNOWN, ids=named)
def test_each_byte_of_the_known_results_counts(known: Known) -> None:
    backend = Backend()
    for place in range(known.results.size):
        backend.wrong = known.call, place
        assert not rounds_correctly(backend)
    with pytest.raises(BackendFailed, match="wrongly"):
        asyncio.run(Readiness(backend, ProcessLifecycle()).check())


@pytest.mark.parametrize("known", KNOWN_CONVERSIONS, ids=named)
def test_the_known_results_are_the_references(known: Known) -> None:
    function, layouts = known.call.function, (known.call.input, known.call.output)
    assert isinstance(function, Convert)
    operands, results = (
        off_the_wire(layout.dtype, memory, layout.element_count)
        for layout, memory in zip(layouts, (known.operands, known.results), strict=True)
    )
    names = [layout.dtype.name for layout in layouts]
    right = cast(operands, *names, function.rounding.value, saturate=function.saturates)
    assert results.tolist() == right.tolist()


@pytest.mark.parametrize("known", KNOWN[len(KNOWN_CONVERSIONS) + 1 :], ids=named)
def test_the_known_results_of_quantization_are_the_references(known: Known) -> None:
    call = known.call
    parameters = call.parameters
    assert parameters is not None
    begin = call.input.byte_length
    end = begin + parameters.scale.byte_length
    operands, scale, point = np.split(known.operands, [begin, end])
    given = linear_calls.Operands(
        operands.view(call.input.dtype.bits),
        scale.view(parameters.scale.dtype.bits),
        point.view(parameters.zero_point.dtype.bits) if parameters.zero_point else None,
    )
    assert (
        known.results.view(call.output.dtype.bits).tolist()
        == linear_calls.right(call, given).tolist()
    )


def truncated(block: Any, out: Any) -> None:
    np.copyto(out, block >> 16)


def by_cast(_source: Any, block: Any, out: Any) -> None:
    np.copyto(out, block.view(_source.numpy), casting="unsafe")


#: Faults in NumPy's ways to convert: a name, and what becomes of it.
PLANTS: dict[str, tuple[Any, str, Any]] = {
    "float32 cut": (conversions, "_upper_half_to_odd", truncated),
    "float64 twice": (
        conversions,
        "_float64_to_odd_float32",
        lambda block, out: np.copyto(out.view("<f4"), block.view("<f8"), casting="unsafe"),
    ),
    "int64 twice": (conversions, "_to_odd_float64", by_cast),
    "bfloat16 cut": (conversions, "_carried", lambda rounding, words, dropped: words.copy()),
    "NaN kept": (conversions, "_put_specials", lambda *_, infinite: None),
    "any integer": (
        conversions,
        "_to_integer",
        lambda function, source, target, block, out: np.copyto(
            out, block.view("<f4").astype("<i8"), casting="unsafe"
        ),
    ),
    "ties away": (
        conversions,
        "_on_a_grid",
        lambda function, target, block, out: np.copyto(
            out.view("<f2"), block.view("<f4"), casting="unsafe"
        ),
    ),
    "tables": (
        conversions,
        "table",
        lambda function, source, target: np.zeros(1 << source.width, target.bits),
    ),
}


@pytest.fixture
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernels, and loops that are made of what is there now."""
    monkeypatch.setattr(select, "compiled_kernels", lambda: None)
    loops._conversion.cache_clear()
    yield
    loops._conversion.cache_clear()


@pytest.mark.usefixtures("numpy_alone")
@pytest.mark.parametrize("plant", PLANTS)
def test_a_fault_in_a_way_to_convert_fails_the_start(
    plant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(backend="numpy")
    create_app(settings)
    loops._conversion.cache_clear()
    monkeypatch.setattr(*PLANTS[plant])
    with pytest.raises(CannotStart, match="the numpy backend rounds known values wrongly"):
        create_app(settings)


@pytest.mark.usefixtures("numpy_alone")
def test_a_fault_that_comes_later_is_503_until_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PROOF_VALID_SECONDS", 0)
    with HostedService() as hosted:
        assert hosted.get("/readyz").status == 200
        with monkeypatch.context() as planting:
            loops._conversion.cache_clear()
            planting.setattr(conversions, "_carried", PLANTS["bfloat16 cut"][2])
            refused = hosted.get("/readyz")
            assert (refused.status, refused.json()["code"]) == (503, "backend_failed")
        loops._conversion.cache_clear()
        assert hosted.get("/readyz").status == 200


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

    for passed, proofs in ((0, 1), (1.0, 1), (0.001, 2), (1.0, 2)):
        clock.now += passed
        asyncio.run(ask())
        assert backend.calls == proofs * len(KNOWN)
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
    assert backend.begun.wait(30)
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
    every = roundings(backend)
    found = report(every)
    assert found == {"conforms": True, "backends": every}
    assert cells(every) == right(DIGESTS)
    pairs = [("float8_e8m0fnu", "int4"), ("float4_e2m1fn", "float8_e5m2"), ("float16", "bfloat16")]
    found = report(every, "cast", [converted(backend, "cast", pair) for pair in pairs])
    assert (found["conforms"], found["backends"]) == (True, every)
    assert cells(found["casts"]) == right({pair: CAST_DIGESTS[pair] for pair in pairs})


def test_a_right_backend_conforms_with_published_digests_of_quantization() -> None:
    """Of 4, 8 and 16 bits, by compiled kernels and by NumPy alone."""
    backend = NumpyBackend(1)
    found = report(
        {},
        "dequantize",
        [converted(backend, "dequantize", pair) for pair in published("dequantize", to="bfloat16")],
    )
    assert cells(found["dequantizations"]) == right(published("dequantize", to="bfloat16"))
    pair = "float16", "float8_e5m2"
    found = report({}, "quantize", [converted(backend, "quantize", pair)])
    assert cells(found["quantizations"]) == right(published("quantize", *pair))


@pytest.mark.slow
def test_a_right_backend_conforms_with_every_published_digest_between_types() -> None:
    backend = NumpyBackend(1)
    for operator, expected in PUBLISHED.items():
        found = report({}, operator, [converted(backend, operator, pair) for pair in expected])
        (tables,) = (tables for name, tables in found.items() if name == MEMBERS[operator])
        assert cells(tables) == right(expected)


def test_the_service_computes_each_digest_once() -> None:
    with HostedService() as hosted:
        hosted.engine.backend.close()
        backend = hosted.engine.backend = Backend()
        every, pair = len(DIGESTS), len(FUNCTIONS)
        for query, calls in (
            ("", every),
            ("?operator=cast&dtype=int8&to=int4", every + pair),
            ("?operator=cast&dtype=int8&to=int4", every + pair),
            ("?operator=cast&dtype=int8&to=uint4", every + 2 * pair),
            ("?operator=round", every + 2 * pair),
        ):
            assert hosted.get(f"/conformance{query}").json()["conforms"]
            assert backend.calls == calls


def cells(tables: Any) -> dict[tuple[str, str], PatternDigest]:
    """The table of the only arithmetic."""
    (table,) = tables.values()
    return {(name, column): cell for name, row in table.items() for column, cell in row.items()}


def right(published: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], PatternDigest]:
    return {key: {"sha256": hex, "matches_published": True} for key, hex in published.items()}


def test_one_wrong_result_of_one_arithmetic_is_found_where_it_is() -> None:
    def wrong(call: Call, source: Bytes, target: Bytes) -> str:
        name = backend.round(call, source, target)
        if (call.input.dtype.name, call.rounding) == ("bfloat16", Rounding.TOWARD_ZERO):
            target[-1] ^= 1
        return name

    def differing(tables: Tables) -> list[tuple[str, str, str]]:
        return [
            (name, dtype, column)
            for name, table in tables.items()
            for dtype, row in table.items()
            for column, cell in row.items()
            if not cell["matches_published"]
        ]

    backend = Two(wrong)
    found = report(roundings(backend))
    assert found["conforms"] is False
    assert differing(found["backends"]) == [("other", "bfloat16", "toward_zero")]
    pairs = [("bfloat16", "int8"), ("float8_e5m2", "int8")]
    found = report({}, "cast", [converted(backend, "cast", pair) for pair in pairs])
    assert found["conforms"] is False
    assert differing(found["casts"]) == [("other", "bfloat16", "int8")]


@pytest.mark.parametrize("failure", [MemoryError("none"), RuntimeError("the device is lost")])
def test_a_backend_that_fails_may_be_asked_again(failure: Exception) -> None:
    def broken(call: Call, source: Bytes, target: Bytes) -> str:
        raise failure

    backend = Two(broken)
    with pytest.raises(BackendFailed, match="test patterns") as refused:
        roundings(backend)
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
