"""The kernels of linear quantization, their text compiled for this CPU, on a device that is it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from support.cases.linear_calls import (
    Operands,
    check,
    drawn,
    linear_call,
    operands_of,
    payload_of,
)
from support.devices import host_kernels
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.functions import Dequantize, FakeQuantize, Linear, Quantize
from tensor_round_service.backends import Bits, Bytes, in_place
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cpu.quantization import has_linear_text
from tensor_round_service.backends.cuda import parameters, pipeline
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.cuda.quantization import linear_kernel
from tensor_round_service.backends.devices import DeviceBuffer
from tensor_round_service.backends.proof import quantizations

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

FUNCTIONS: tuple[Linear, ...] = (
    Quantize(),
    Quantize(saturates=False),
    *(Quantize(precision=BY_NAME[name]) for name in ("float16", "float32")),
    Dequantize(),
    *(FakeQuantize(through=BY_NAME[name]) for name in ("int8", "uint16", "int4")),
)


class DeviceAlone(CupyBackend):
    """The backend where nothing falls to NumPy."""

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        by = super().round(call, source, target)
        assert by == "cupy"
        return by


@pytest.fixture(scope="module")
def backend() -> Iterator[CupyBackend]:
    backend = DeviceAlone([HostDevice()], NumpyBackend(threads=1))
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def host() -> Iterator[NumpyBackend]:
    backend = NumpyBackend(threads=1)
    yield backend
    backend.close()


def by_host(host: NumpyBackend, call: Call, payload: Bytes) -> Bytes:
    results = np.empty(call.output.byte_length, np.uint8)
    host.round(call, payload, results)
    return results


@pytest.mark.parametrize(
    ("functions", "each"),
    [
        pytest.param(FUNCTIONS, 67, id="some types"),
        *(
            pytest.param(
                [f], 1, marks=[pytest.mark.sweep, pytest.mark.timeout(600)], id=f"all, {n}"
            )
            for n, f in enumerate(FUNCTIONS)
        ),
    ],
)
def test_operands_of_all_kinds_meet_scales_of_all_kinds(
    backend: CupyBackend, host: NumpyBackend, functions: Sequence[Linear], each: int
) -> None:
    """One in so many of the functions and types that have kernels."""
    types = itertools.product(functions, *[DTYPES] * 3)
    found = [of for of in types if has_linear_text(*of)][::each]
    host_kernels.compile_together(dict.fromkeys(linear_kernel(*of) for of in found))
    for of in found:
        for call, payload in quantizations(*of):
            results = np.empty(call.output.byte_length, np.uint8)
            backend.round(call, payload, results)
            np.testing.assert_array_equal(results, by_host(host, call, payload), str(of))


def hard_scales(dtype: str, count: int) -> Bits:
    """The ends of a type's numbers and beyond, thirds and the like, and any."""
    kind = BY_NAME[dtype]
    ends = [0, kind.sign_bit, 1, 2, 3, kind.largest, kind.exponent_mask, kind.exponent_mask + 1]
    near = np.array([0.1, 1 / 3, -0.7, 1 / 255, 3.0, 1 / 127.5]).astype(kind.numpy).view(kind.bits)
    return np.concatenate([np.array(ends, kind.bits), near, drawn(dtype, [count], 5)])[:count]


@pytest.mark.parametrize(("dtype", "target"), [("float16", "int8"), ("bfloat16", "uint16")])
def test_every_operand_of_16_bits_is_quantized(
    backend: CupyBackend, dtype: str, target: str
) -> None:
    for scales in np.split(hard_scales(dtype, 32), 4):
        x = np.tile(np.arange(1 << 16, dtype=np.uint16), (scales.size, 1))
        call = linear_call(Quantize(), (dtype, dtype, target), x.shape, [scales.size, 1])
        points = drawn(target, [scales.size, 1], 3)
        check(backend, call, Operands(x, scales.reshape(-1, 1), points))


def test_every_code_of_16_bits_is_dequantized(backend: CupyBackend) -> None:
    scales = hard_scales("float32", 16)
    x = np.tile(np.arange(1 << 16, dtype=np.uint16), (scales.size, 1))
    types = ("uint16", "float32", "float16")
    call = linear_call(Dequantize(), types, x.shape, [scales.size, 1])
    points = np.resize(np.array([0, 0xFFFF, 0x8000, 7], np.uint16), (scales.size, 1))
    check(backend, call, Operands(x, scales.reshape(-1, 1), points))


def test_quotients_next_to_ties(backend: CupyBackend) -> None:
    """The float32 nearest to a tie's product with the scale, and those beside it."""
    rng = np.random.default_rng(8)
    # Down to subnormal scales, and operands that are subnormal too.
    scales = (rng.random((40, 1)) + 1) * 2.0 ** np.linspace(-148, 100, 40).reshape(-1, 1)
    scales = scales.astype(np.float32)
    ties = rng.integers(-140, 140, (40, 300)) + 0.5
    with np.errstate(over="ignore"):
        products = (ties * scales.astype(np.float64)).astype(np.float32).view(np.uint32)
    x = np.concatenate([products - 1, products, products + 1], axis=1)
    for function, target in ((Quantize(), "int8"), (FakeQuantize(), "float32")):
        call = linear_call(function, ("float32", "float32", target), x.shape, scales.shape)
        points = rng.choice(np.array([0x80, 0, 0x7F, 0xFF], np.uint8), scales.shape)
        check(backend, call, Operands(x, scales.view(np.uint32), points))


#: A row of a number of elements that no piece and no carrier has, with a parameter for each row or
#: column or block.
CASES: dict[str, tuple[Linear, tuple[str, str, str], Sequence[int], Sequence[int]]] = {
    "narrower": (Quantize(), ("float32", "float32", "int8"), (3001, 999), (3001, 1)),
    "much narrower": (Quantize(), ("float32", "float32", "uint4"), (3001, 999), (1, 27)),
    "as wide": (FakeQuantize(), ("float32", "float32", "float32"), (3001, 999), (1, 999)),
    "wider": (Dequantize(), ("int4", "float16", "float16"), (3001, 999), (3001, 27)),
    "alike": (Dequantize(), ("uint8", "float32", "float32"), (3001, 999), (1, 1)),
}
CASE = pytest.mark.parametrize("case", CASES)


def case_of(name: str) -> tuple[Call, Bytes]:
    function, types, shape, counts = CASES[name]
    call = linear_call(function, types, shape, counts)
    return call, np.frombuffer(payload_of(call, operands_of(call, 7)), np.uint8)


@CASE
@pytest.mark.parametrize("over", [False, True], ids=["out-of-place", "in-place"])
def test_pieces_find_their_parameters(
    backend: CupyBackend, host: NumpyBackend, case: str, over: bool
) -> None:
    call, payload = case_of(case)
    if over and not call.is_in_place:
        return
    source = backend.allocate(payload.size)
    source[:] = payload
    backend.wait_until_pinned()
    target = in_place(call, source) if over else np.empty(call.output.byte_length, np.uint8)
    backend.round(call, source, target)
    np.testing.assert_array_equal(target, by_host(host, call, payload))


@CASE
@pytest.mark.parametrize(("launch", "offset"), [(1 << 12, 0), (1 << 30, 3)])
def test_tensors_on_the_device(
    backend: CupyBackend,
    host: NumpyBackend,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    launch: int,
    offset: int,
) -> None:
    """Anywhere, into other memory and where they are, and with strides on either side."""
    monkeypatch.setattr(pipeline, "LAUNCH", launch)
    function, types, _, counts = CASES[case]
    shape = (70, 54)
    blocks = [min(count, size) for count, size in zip(counts, shape, strict=True)]
    is_packed = any(BY_NAME[name].is_sub_byte for name in types)
    spaced = [None] if is_packed else [None, (1, 70), (130, 2)]
    for strides in itertools.product(spaced, spaced):
        call = linear_call(function, types, shape, blocks, strides=strides)
        assert_resident(backend, host, call, offset, over=False)
        if call.is_in_place:
            assert_resident(backend, host, call, offset, over=True)


def assert_resident(
    backend: CupyBackend, host: NumpyBackend, call: Call, offset: int, *, over: bool
) -> None:
    rng = np.random.default_rng(2)
    payload = rng.integers(0, 256, call.payload_bytes, np.uint8)
    length = call.input.byte_length
    memory = aligned(offset + length)[offset:]
    memory[:] = payload[:length]
    result = in_place(call, memory) if over else aligned(offset + call.output.byte_length)[offset:]
    places = [DeviceBuffer(part.ctypes.data, part.size, part) for part in (memory, result)]
    assert backend.can_run_resident(call, payload[length:])
    assert backend.round_resident(0, call, *places, payload[length:]) == "cupy"
    np.testing.assert_array_equal(result, by_host(host, call, payload))


def aligned(nbytes: int) -> Bytes:
    memory = np.full(nbytes + 16, 0xAA, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + nbytes]


TO_INT8, TO_FLOAT8 = ("float32", "float32", "int8"), ("float32", "float32", "float8_e4m3fn")
#: What a call has, and what computes it.
BY: dict[str, tuple[Linear, Sequence[str], int, int, str]] = {
    "a zero point of +0 is none": (Quantize(), TO_FLOAT8, 4, 0, "cupy"),
    "a zero point of -0": (Quantize(), TO_FLOAT8, 4, 0x80, "numpy"),
    "limits": (Quantize(limits=(-7, 7)), TO_INT8, 4, 1, "numpy"),
    "operands of 32 bits": (Quantize(), ("int32", "float32", "int8"), 4, 1, "numpy"),
    "few scales": (Quantize(), TO_INT8, 16, 1, "cupy"),
    "many scales": (Quantize(), TO_INT8, 17, 1, "numpy"),
    "no elements": (Quantize(), TO_INT8, 0, 1, "numpy"),
}


@pytest.mark.parametrize(("function", "types", "count", "point", "by"), BY.values(), ids=BY)
def test_numpy_computes_what_has_no_kernel(
    backend: CupyBackend,
    host: NumpyBackend,
    monkeypatch: pytest.MonkeyPatch,
    function: Linear,
    types: Sequence[str],
    count: int,
    point: int,
    by: str,
) -> None:
    monkeypatch.setattr(parameters, "MAX_SCALE_BYTES", 16 * 4)
    call = linear_call(function, types, [count], [count])
    operands = operands_of(call, 1)
    assert operands.zero_point is not None
    operands.zero_point[:] = point
    payload = np.frombuffer(payload_of(call, operands), np.uint8)
    results = np.empty(call.output.byte_length, np.uint8)
    for way in (super(DeviceAlone, backend).round, backend.round_on_device):
        assert way(call, payload, results) == by
        np.testing.assert_array_equal(results, by_host(host, call, payload))
