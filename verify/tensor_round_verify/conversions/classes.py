"""The classes of the operands of conversions: the kinds of hard cases."""

from __future__ import annotations

import numpy as np

from tensor_round.contract.differences.classes import Codes, ElementClass, PatternClass, classify

from ..reference import FLOAT_FORMATS, Bits, is_nan, rounded
from .blocks.quantization import BlockDequantization, BlockQuantization
from .conversion import Cast, Dequantization, Quantization
from .deviation import AnyHow
from .linear import divided, nearest_integers, product, quotient_type
from .patterns import Operands
from .reference import Numbers, decoded, encoded, ends, is_infinite, read


class ConversionClass(ElementClass):
    """The classes; the first that fits an operand applies."""

    NAN = 0, "NaNs"
    INFINITY = 1, "infinities"
    NEGATIVE_ZERO = 2, "-0.0"
    POSITIVE_ZERO = 3, "+0.0"
    #: The rounded magnitude is above that of the target's last number of this sign.
    BEYOND_THE_LARGEST = 4, "numbers beyond the largest"
    EXACT_TIE = 5, "exact ties"
    #: The distance to the tie is one place of the operand's own format.
    NEXT_TO_A_TIE = 6, "numbers next to a tie"
    SUBNORMAL_RESULT = 7, "other numbers with a subnormal result"
    REPRESENTABLE = 8, "numbers that the target has"
    OTHER = 9, "other numbers"
    #: Of blocks: no element, but what all of a block share.
    SCALE = 10, "scales"


def classes_of(how: AnyHow, operands: Operands) -> Codes:
    """The class of each operand of a conversion, as its number."""
    if isinstance(how, Cast):
        codes = _of_numbers(decoded(operands.bits, how.source), how.target)
        return _with_specials(codes, operands.bits, how.source)
    if isinstance(how, BlockQuantization):
        return _of_block(how, operands)
    if isinstance(how, BlockDequantization):
        codes = np.full(operands.bits.shape, ConversionClass.REPRESENTABLE, np.uint8)
        codes[is_nan(how.target, how.results(operands))] = ConversionClass.NAN
        return codes
    if isinstance(how, Dequantization):
        products = product(how.differences(operands), read(operands.scales, how.scale_type))
        codes = _of_numbers(products.numbers, how.target)
        negative = products.numbers.negative
        codes[products.is_zero & negative] = ConversionClass.NEGATIVE_ZERO
        codes[products.is_zero & ~negative] = ConversionClass.POSITIVE_ZERO
        codes[products.infinite] = ConversionClass.INFINITY
        codes[products.nan] = ConversionClass.NAN
        return codes
    return _of_quotient(how, operands)


def _of_numbers(numbers: Numbers, target: str) -> Codes:
    """The class of each number that is rounded to a type."""
    nearest = encoded(numbers, target, "ties_to_even")
    codes = np.full(numbers.negative.shape, ConversionClass.OTHER, np.uint8)
    codes[nearest.exact] = ConversionClass.REPRESENTABLE
    if target in FLOAT_FORMATS:
        least_normal = 1 << FLOAT_FORMATS[target].fraction_bits
        subnormal = (nearest.pattern < least_normal) & ~nearest.exact
        codes[subnormal] = ConversionClass.SUBNORMAL_RESULT
    codes[nearest.near] = ConversionClass.NEXT_TO_A_TIE
    codes[nearest.tie] = ConversionClass.EXACT_TIE
    codes[nearest.beyond] = ConversionClass.BEYOND_THE_LARGEST
    return codes


def _of_quotient(how: Quantization, operands: Operands) -> Codes:
    """The class of each operand of a quantization, by its quotient."""
    bits, types = operands.bits, (how.source, how.scale_type)
    own = quotient_type(how.scale_type, how.precision)
    quotients, real = divided(bits, operands.scales, types, own)
    if how.codes in FLOAT_FORMATS:
        codes = _of_numbers(decoded(quotients, real), how.codes)
        return _with_specials(codes, bits, how.source)
    integral = rounded(quotients, real, "ties_to_even")
    sums = nearest_integers(read(quotients, real)) + operands.zero_points
    least, most = ends(how.codes)
    kinds = classify(quotients, real, integral)
    before = classify(quotients - quotients.dtype.type(1), real, integral)
    codes = np.full(bits.shape, ConversionClass.OTHER, np.uint8)
    codes[quotients == integral] = ConversionClass.REPRESENTABLE
    near = (kinds == PatternClass.NEXT_BELOW_A_TIE) | (before == PatternClass.EXACT_TIE)
    codes[near] = ConversionClass.NEXT_TO_A_TIE
    codes[kinds == PatternClass.EXACT_TIE] = ConversionClass.EXACT_TIE
    codes[(sums < least) | (sums > most)] = ConversionClass.BEYOND_THE_LARGEST
    return _with_specials(codes, bits, how.source)


def _of_block(how: BlockQuantization, operands: Operands) -> Codes:
    """The class of each operand of a quantization into blocks, by the scale of its block."""
    numbers, x = how.format.numbers, how.values(operands.bits)
    table = numbers.table
    units = how.format.scales[np.maximum(operands.zero_points, 0)] * how.tensor_scale
    units = np.where(units > 0, units, 1.0)  # of scales alone
    quotients = np.abs(x) / units
    ties = (table[1:] + table[:-1]) / 2
    codes = np.full(x.shape, ConversionClass.OTHER, np.uint8)
    codes[quotients < numbers.smallest_normal] = ConversionClass.SUBNORMAL_RESULT
    codes[np.isin(quotients, table)] = ConversionClass.REPRESENTABLE
    codes[quotients > table[-1]] = ConversionClass.BEYOND_THE_LARGEST
    codes[np.isin(quotients, ties)] = ConversionClass.EXACT_TIE
    codes = _with_specials(codes, operands.bits, how.source)
    codes[operands.zero_points < 0] = ConversionClass.SCALE
    return codes


def _with_specials(codes: Codes, bits: Bits, source: str) -> Codes:
    codes[bits == 0] = ConversionClass.POSITIVE_ZERO
    if source in FLOAT_FORMATS and (negative_zero := FLOAT_FORMATS[source].sign_bit):
        codes[bits == negative_zero] = ConversionClass.NEGATIVE_ZERO
    codes[is_infinite(source, bits)] = ConversionClass.INFINITY
    codes[is_nan(source, bits)] = ConversionClass.NAN
    return codes
