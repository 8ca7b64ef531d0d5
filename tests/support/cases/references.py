"""References by patterns: linear quantization as verify has it, and reduce_precision."""

from __future__ import annotations

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.conversions.conversion import FakeQuantization, Quantization
from tensor_round_verify.conversions.patterns import Operands
from tensor_round_verify.reference import (
    FLOAT_FORMATS,
    INTEGER_WIDTHS,
    Bits,
    bits_type,
    decision,
    is_nan,
)


def quantized(
    bits: Bits,
    scales: Bits,
    zero_points: Bits | None,
    types: tuple[str, str, str],
    *,
    precision: str = "",
    saturate: bool = True,
) -> Bits:
    """Quantize operands; ``types`` are theirs, the scales' and the results'."""
    source, scale, target = types
    how = Quantization(source, target, scale=scale, precision=precision, saturate=saturate)
    return how.results(_operands(bits, scales, zero_points, target))


def faked(
    bits: Bits,
    scales: Bits,
    zero_points: Bits | None,
    types: tuple[str, str, str, str],
    *,
    precision: str = "",
    saturate: bool = True,
) -> Bits:
    """Quantize to the third type, and dequantize to the fourth."""
    source, scale, through, target = types
    how = FakeQuantization(
        source, target, scale=scale, precision=precision, saturate=saturate, through=through
    )
    return how.results(_operands(bits, scales, zero_points, through))


def _operands(bits: Bits, scales: Bits, zero_points: Bits | None, codes: str) -> Operands:
    if zero_points is None:
        return Operands(bits, scales, np.zeros(bits.shape, np.int64))
    kind = np.int64 if codes in INTEGER_WIDTHS else np.float64
    return Operands(bits, scales, zero_points.view(BY_NAME[codes].numpy).astype(kind))


def reduced(bits: Bits, dtype: str, exponent_bits: int, mantissa_bits: int) -> Bits:
    """StableHLO's reduce_precision: the fraction rounded to fewer bits, ties to even.

    Then what is beyond the range of fewer bits of exponent is infinity, or NaN in a type without
    infinity, and what is below its least normal number zero; without fewer, subnormals stay. NaNs
    are unchanged.
    """
    fmt = FLOAT_FORMATS[dtype]
    wide = bits.astype(np.uint64)
    sign, magnitude = wide & np.uint64(fmt.sign_bit), wide & np.uint64(fmt.signless)
    places = np.uint64(max(fmt.fraction_bits - mantissa_bits, 0))
    integer = magnitude >> places
    rest, half = magnitude - (integer << places), np.full_like(wide, 1 << int(places) >> 1)
    moved = decision("ties_to_even")(integer, rest, half, sign > 0) & (rest > 0)
    found = (integer + moved) << places
    bias, is_beyond = (1 << exponent_bits - 1) - 1, found > np.uint64(fmt.largest)
    if bias < fmt.bias:
        field = (found >> np.uint64(fmt.fraction_bits)).astype(np.int64) - fmt.bias
        found = np.where(field < 1 - bias, np.uint64(0), found)
        is_beyond |= field > bias
    beyond = fmt.infinity if fmt.has_infinity else fmt.nan or fmt.largest
    found = np.where(is_beyond, np.uint64(beyond), found)
    if fmt.nans == "-0.0":  # there is one zero
        sign = np.where(found == 0, np.uint64(0), sign)
    return np.where(is_nan(dtype, bits), bits, sign | found).astype(bits_type(dtype))
