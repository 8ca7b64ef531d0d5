"""The proof of kernels: they must give NumPy's bits before they serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import ROUNDABLE, DType
from tensor_round.contract.functions import Function, RoundToIntegral
from tensor_round.contract.host_memory import pack
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from . import Bytes, Round
from .cpu.conversion_rule import ends
from .cpu.quantization import code_type
from .known_results import KNOWN_CONVERSIONS, KNOWN_LINEAR

#: Rounds on the device under test.
DeviceRound = Callable[[Call, Bytes, Bytes], object]
#: Scales of all kinds, with which kernels of quantization are proved: subnormal ones, too.
_SCALES = (1.0, 0.1, 0.5, 3.0, 1 / 255, -0.7, 2.0**-9, 0.0, np.inf, np.nan, 1e-38, 1e30)


class WrongBits(Exception):
    """A kernel's results differ from NumPy's; the message names dtype and rounding."""


@cache
def patterns(dtype: DType) -> Bytes:
    """All patterns of an 8- or 16-bit type; of a wider type all combinations of its upper 16 bits.

    The lower bits of a wider type are in turn all zeros, all ones, 0...01 and 10...0. Of a type of
    4 bits they are all pairs.
    """
    if dtype.is_sub_byte:
        return np.arange(1 << 8, dtype=np.uint8)
    count = 1 << min(dtype.width, 16)
    upper = np.arange(count, dtype=dtype.bits)
    lower_bits = dtype.width - 16
    if lower_bits <= 0:
        return upper.view(np.uint8)
    lowers = [0, (1 << lower_bits) - 1, 1, 1 << (lower_bits - 1)]
    return np.concatenate(
        [(upper << dtype.bits.type(lower_bits)) | dtype.bits.type(lower) for lower in lowers]
    ).view(np.uint8)


def quantizations(
    function: Function, source: DType, scale: DType, target: DType
) -> Iterator[tuple[Call, Bytes]]:
    """Calls of linear quantization with payloads, of operands of all kinds by scales of all kinds.

    A row of operands has each scale, then each scale every row. Zero points are integers alone,
    both ends of their type among them.
    """
    with np.errstate(all="ignore"):
        scales = np.array(_SCALES).astype(scale.numpy).view(np.uint8)
    codes = code_type(function, source, target)
    has_points, points = not codes.is_float, np.empty(0, np.uint8)
    if has_points:
        spread = np.roll(np.linspace(*ends(codes), len(_SCALES)), 1)
        elements = spread.astype(np.int64).astype(codes.bits)
        points = pack(elements) if codes.is_sub_byte else elements.view(np.uint8)
    of_source = np.tile(patterns(source), len(_SCALES) if source.width <= 16 else 1)
    length = source.count(of_source.size) // len(_SCALES)
    operands = of_source[: source.nbytes(length * len(_SCALES))]
    payload = np.concatenate([operands, scales, points])
    for shape, counts in (
        ((len(_SCALES), length), (len(_SCALES), 1)),
        ((length, len(_SCALES)), (1, len(_SCALES))),
    ):
        parameters = Parameters.of(shape, Layout.of(scale, counts), codes if has_points else None)
        given, made = Layout.of(source, shape), Layout.of(target, shape)
        yield Call(function, given, made, given.byte_length, parameters), payload


def prove(device_round: DeviceRound, host_round: Round) -> None:
    """Compile and run kernels of a device, and compare their bits with the host's.

    They are all that round to integral values, and the conversions and quantizations with known
    results. Others are compiled when a request first has them. Raises :class:`WrongBits`.
    """
    for known in KNOWN_LINEAR:
        parameters, function = known.call.parameters, known.call.function
        assert parameters is not None
        types = known.call.input.dtype, parameters.scale.dtype, known.call.output.dtype
        for call, payload in ((known.call, known.operands), *quantizations(function, *types)):
            _compare(device_round, host_round, call, payload)
    for known in KNOWN_CONVERSIONS:
        source, target = known.call.input.dtype, known.call.output.dtype
        operands = Layout.of(source, (source.count(patterns(source).size),))
        call = Call.packed_output(known.call.function, operands, target)
        _prove_call(device_round, host_round, call)
    for dtype in ROUNDABLE:
        packed = Layout.of(dtype, (2, dtype.count(patterns(dtype).size) // 2))
        functions = [RoundToIntegral(rounding) for rounding in Rounding]
        for function in functions:
            _prove_call(device_round, host_round, Call.packed_output(function, packed))
        if dtype.is_sub_byte:
            continue
        spaced = Layout.of(dtype, packed.shape, (1, 5))
        # The strided copy does not depend on the rounding: one is enough.
        call = Call(functions[0], packed, spaced, packed.byte_length)
        _prove_call(device_round, host_round, call)


def _prove_call(device_round: DeviceRound, host_round: Round, call: Call) -> None:
    operands = patterns(call.input.dtype)[: call.input.byte_length]
    _compare(device_round, host_round, call, operands)


def _compare(device_round: DeviceRound, host_round: Round, call: Call, operands: Bytes) -> None:
    result, expected = (np.empty(call.output.byte_length, np.uint8) for _ in range(2))
    device_round(call, operands.copy(), result)
    host_round(call, operands.copy(), expected)
    if not np.array_equal(result, expected):
        wrong = int(np.count_nonzero(result != expected))
        source, target = call.input.dtype, call.output.dtype
        types = source.name if source is target else f"{source.name} to {target.name}"
        raise WrongBits(f"{types} {call.rounding} differs from NumPy's in {wrong} bytes")
