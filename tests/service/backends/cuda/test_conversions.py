"""The kernels of conversions, compiled for this CPU, and conversions on a device that is this CPU.

That their text is right for every operand is proved by ``make prove``. Here are the elements of a
carrier, tails, and memory of every kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import cycle, product

import numpy as np
import pytest

from support.devices import host_kernels
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DTYPES, DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bits, Bytes, in_place
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda import pipeline as pipelines
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.cuda.conversions import conversion_kernel, distinct
from tensor_round_service.backends.cuda.launches import launch_of
from tensor_round_service.backends.devices import DeviceBuffer, DeviceFailed
from tensor_round_verify.patterns import samples

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

#: What a test finds in a target where nothing was written.
STALE = 0xAA

Pair = tuple[Function, DType, DType]


def pairs(source: DType) -> list[Pair]:
    """Every target of a type, each in other directions than the one before."""
    functions = cycle(Convert(r, saturates=s) for s in (False, True) for r in Rounding)
    found: list[Pair] = []
    for target in DTYPES:
        if target is not source:
            found += [(distinct(next(functions), source, target), source, target)]
    if source.is_float:
        found += [(ReducePrecision(Rounding.TIES_TO_EVEN, 3, 2), source, source)]
    return [pair for pair in found if not pair[0].is_copy(*pair[1:])]


def chosen(source: DType, each: int) -> list[Pair]:
    """Every so many of a type's pairs, which begin elsewhere for each type."""
    return pairs(source)[DTYPES.index(source) % each :: each]


@cache
def compiled_together(each: int) -> None:
    """All at once: a compiler that only starts takes as long as it does for twenty kernels."""
    every = (pair for source in DTYPES for pair in chosen(source, each))
    host_kernels.compile_together(conversion_kernel(*pair) for pair in every)


@pytest.fixture(scope="module")
def host() -> Iterator[NumpyBackend]:
    backend = NumpyBackend(threads=1)
    yield backend
    backend.close()


def elements(dtype: DType, count: int, seed: int = 0) -> Bytes:
    """So many hard patterns of a type, packed."""
    drawn: Bits = np.random.default_rng(seed).choice(samples(dtype.name), count + count % 2)
    if dtype.is_sub_byte:
        return (drawn[::2] | drawn[1::2] << dtype.width).view(np.uint8)
    return drawn[:count].view(np.uint8)


def every_pattern(dtype: DType) -> Bytes:
    """All patterns of a narrow type, and the edges of a wide one, in any order."""
    count = 1 << dtype.width if dtype.width <= 16 else samples(dtype.name).size
    if dtype.width > 16:
        return elements(dtype, count)
    order: Bits = np.random.default_rng(1).permutation(count).astype(dtype.bits)
    if dtype.is_sub_byte:
        return (order[::2] | order[1::2] << dtype.width).view(np.uint8)
    return order.view(np.uint8)


def flat(pair: Pair, count: int) -> Call:
    function, source, target = pair
    return Call.packed_output(function, Layout.of(source, (count,)), target)


def right(host: NumpyBackend, call: Call, operands: Bytes) -> Bytes:
    """What NumPy makes of it."""
    target = np.full(call.output.byte_length, STALE, np.uint8)
    host.round(call, operands, target)
    return target


def aligned(nbytes: int) -> Bytes:
    memory = np.full(nbytes + 16, STALE, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + nbytes]


def by_kernel(pair: Pair, operands: Bytes, count: int, *, over: bool) -> Bytes:
    """The kernel's answer, over its operands or not, and 16 bytes of the target behind it."""
    launch = launch_of(*pair, count)
    target = aligned(pair[2].nbytes(count) + 16)
    source = target[: operands.size] if over else aligned(operands.size)
    source[:] = operands
    addresses = source.ctypes.data, launch.length, target.ctypes.data, launch.threads
    host_kernels.run(launch.kernel, *addresses, flushed=True)
    return target


@pytest.mark.parametrize(
    "each", [4, pytest.param(1, marks=pytest.mark.sweep)], ids=["some pairs", "every pair"]
)
@pytest.mark.parametrize("source", DTYPES, ids=lambda dtype: dtype.name)
def test_every_pattern_and_tail(host: NumpyBackend, source: DType, each: int) -> None:
    compiled_together(each)
    for pair in chosen(source, each):
        operands = every_pattern(source)
        # Of 4 bits there are fewer patterns than the longest tail has elements.
        operands = np.resize(operands, max(operands.size, source.nbytes(36)))
        count = operands.size * 8 // source.width
        ways = [False, True] if pair[2].width == source.width else [False]
        for over, some in product(ways, (count, count - 1, *range(36))):
            given = operands[: source.nbytes(some)]
            result = by_kernel(pair, given, some, over=over)
            length = pair[2].nbytes(some)
            expected = right(host, flat(pair, some), given)
            assert np.array_equal(result[:length], expected), (pair, some)
            assert set(result[length:].tobytes()) == {STALE}, (pair, some)


CASES: dict[str, Pair] = {
    "narrower": (Convert(Rounding.TIES_TO_EVEN), BY_NAME["float32"], BY_NAME["float8_e4m3fn"]),
    "half": (Convert(Rounding.TOWARD_ZERO, saturates=True), BY_NAME["float16"], BY_NAME["int4"]),
    "wider": (Convert(Rounding.TIES_TO_EVEN), BY_NAME["uint4"], BY_NAME["float64"]),
    "as wide": (Convert(Rounding.TIES_TO_AWAY), BY_NAME["float32"], BY_NAME["int32"]),
}
CASE = pytest.mark.parametrize("pair", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def backend() -> Iterator[CupyBackend]:
    host_kernels.compile_together(conversion_kernel(*pair) for pair in CASES.values())
    backend = CupyBackend([HostDevice()], NumpyBackend())
    yield backend
    backend.close()


@CASE
@pytest.mark.parametrize("is_pinned", [True, False], ids=["pinned", "plain"])
@pytest.mark.parametrize("over", [False, True], ids=["out-of-place", "in-place"])
def test_pieces_of_a_host_tensor(
    host: NumpyBackend, backend: CupyBackend, pair: Pair, is_pinned: bool, over: bool
) -> None:
    count = (9 << 20) + 5
    operands = np.resize(elements(pair[1], 50_000), pair[1].nbytes(count))
    call = flat(pair, count)
    source = backend.allocate(operands.size) if is_pinned else np.empty_like(operands)
    source[:] = operands
    if over and not call.is_in_place:
        return
    target = in_place(call, source) if over else np.full(call.output.byte_length, STALE, np.uint8)
    backend.wait_until_pinned()
    assert backend.round_on_device(call, source, target) == "cupy"
    np.testing.assert_array_equal(target, right(host, call, operands))


@CASE
def test_a_device_that_fails_after_operands_are_overwritten_gives_no_answer(
    host: NumpyBackend, pair: Pair
) -> None:
    """A fall-back would convert results again."""
    count = 9 << 20
    call = flat(pair, count)
    if not call.is_in_place:
        return
    operands = np.resize(elements(pair[1], 50_000), pair[1].nbytes(count))
    outcomes = set()
    for nth in (1, 3, 8):
        device = HostDevice()
        backend = CupyBackend([device], NumpyBackend())
        left = iter([False] * (nth - 1))

        def fail(operation: str, left: Iterator[bool] = left) -> None:
            if operation == "run" and next(left, True):
                raise DeviceFailed("launch failure")

        source = operands.copy()
        target = in_place(call, source)
        device.when_done = fail
        try:
            outcome = backend.round(call, source, target)
        except DeviceFailed:
            outcome = "none"
        if outcome != "none":
            np.testing.assert_array_equal(target, right(host, call, operands))
        outcomes.add(outcome)
        backend.close()
    assert outcomes == {"numpy", "none"}


@CASE
@pytest.mark.parametrize("launch", [1 << 12, 1 << 30])
@pytest.mark.parametrize("offset", [0, 3])
def test_tensors_on_the_device(
    host: NumpyBackend,
    backend: CupyBackend,
    monkeypatch: pytest.MonkeyPatch,
    pair: Pair,
    launch: int,
    offset: int,
) -> None:
    """Anywhere, into other memory and where they are, and with strides on either side."""
    monkeypatch.setattr(pipelines, "LAUNCH", launch)
    call = flat(pair, 30_001)
    assert_resident(host, backend, call, offset, over=False)
    assert_resident(host, backend, call, offset, over=call.is_in_place)
    _, source, target = pair
    spaced: dict[bool, tuple[tuple[int, ...] | None, ...]] = {
        False: (None, (1, 70), (130, 2), (0, 1)),
        True: (None,),
    }
    for given in spaced[source.is_sub_byte]:
        for made in spaced[target.is_sub_byte][:3]:
            layouts = Layout.of(source, (70, 60), given), Layout.of(target, (70, 60), made)
            strided = Call(pair[0], *layouts, layouts[0].byte_length)
            assert_resident(host, backend, strided, offset, over=False)


def assert_resident(
    host: NumpyBackend, backend: CupyBackend, call: Call, offset: int, *, over: bool
) -> None:
    count = call.input.byte_length * 8 // call.input.dtype.width
    operands = elements(call.input.dtype, count)
    memory = aligned(offset + operands.size)[offset:]
    memory[:] = operands
    result = in_place(call, memory) if over else aligned(offset + call.output.byte_length)[offset:]
    places = [DeviceBuffer(part.ctypes.data, part.size, part) for part in (memory, result)]
    backend.round_resident(0, call, *places, np.empty(0, np.uint8))
    np.testing.assert_array_equal(result, right(host, call, operands))
