"""Which named deviations a conversion may have, alone or together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ..reference import FLOAT_FORMATS, INTEGER_WIDTHS
from .blocks import deviations as of_blocks
from .blocks.quantization import BlockDequantization, BlockQuantization
from .conversion import Cast, Dequantization, FakeQuantization, How, Quantization
from .deviation import AnyHow, ConversionDeviation, deviated
from .deviations import CASTS, DEQUANTIZATIONS, QUANTIZATIONS, ROUNDINGS, TO_ODD
from .reference import digits


def _fits(deviation: ConversionDeviation, how: How) -> bool:
    changes = deviation.changes
    if deviation.changes_nothing(how):
        return False
    if not isinstance(how, Cast):
        return _fits_linear(deviation, how)
    own, fmt = FLOAT_FORMATS.get(how.source), FLOAT_FORMATS.get(how.target)
    floats = [dtype for dtype in (how.source, how.target) if dtype in FLOAT_FORMATS]
    via = str(changes.get("via", ""))
    if via in INTEGER_WIDTHS:
        return floats == [how.source] and digits(how.target) > digits(via)
    if via in FLOAT_FORMATS:
        before, middle, behind = (digits(dtype) for dtype in (how.source, via, how.target))
        return before > middle and (middle > behind or len(floats) == 1) and bool(floats)
    if "mistaken" in changes:
        return changes["mistaken"][0] in floats
    if "half_for_odd" in changes:
        return how.target == "bfloat16"
    if "carry_ored" in changes:
        return fmt is not None and fmt.has_zero
    if deviation.aspect == "rounding":
        return bool(floats)
    if own is None or fmt is None:
        return _fits_integers(deviation, how)
    if via:
        return how.source == ("float32" if via == "TF32" else "float64") and fmt.fraction_bits < 11
    if deviation.aspect == "nans":
        same = own.width - own.fraction_bits == fmt.width - fmt.fraction_bits
        loses = own.fraction_bits > fmt.fraction_bits and fmt.has_infinity and own.has_infinity
        return loses and (changes["nans"] == "cut" or (same and changes["nans"] == "carried"))
    if deviation.aspect == "overflow":
        # Types of 16 bits and more are never asked to saturate.
        return "rule" not in changes and (
            fmt.width <= 8 or (fmt.width == 16 and changes["saturate"])
        )
    return fmt.has_zero or deviation.aspect != "zeros"


def _fits_linear(deviation: ConversionDeviation, how: Quantization | Dequantization) -> bool:
    changes, is_float = deviation.changes, how.codes in FLOAT_FORMATS
    scales = FLOAT_FORMATS.get(how.scale_type)
    if "scale_in" in changes:
        is_other = changes["scale_in"] != how.scale_type
        return is_other and scales is not None and scales.has_zero
    if "flushed_scales" in changes:
        return scales is not None
    if how.target == changes.get("product_in") or ("fused" in changes and how.mixed):
        return False
    if "first_scale" in changes:
        return how.per_axis or how.blocked
    if isinstance(how, Dequantization):
        return not (is_float and "wraps" in changes)
    if "saturate" in changes:
        return is_float and FLOAT_FORMATS[how.codes].nan is not None
    if is_float:
        is_known = not changes.keys().isdisjoint(("quotient", "precision", "zero_point_forgotten"))
        return is_known or deviation in (*ROUNDINGS, TO_ODD)
    return not ("narrow" in changes and how.codes[0] == "u")


def _fits_integers(deviation: ConversionDeviation, how: Cast) -> bool:
    """Whether a deviation fits a cast from or to integers, or both."""
    changes = deviation.changes
    if how.target not in INTEGER_WIDTHS:
        saturates = deviation.aspect == "overflow" and "saturate" in changes
        return saturates and "infinities_saturate" not in changes
    if deviation.aspect == "overflow":
        from_floats = how.source in FLOAT_FORMATS
        return from_floats if "rule" in changes else "infinities_saturate" not in changes
    return changes.get("nans") in ("zero", "least", "greatest") and how.source in FLOAT_FORMATS


#: Deviations that occur together.
Combination = tuple[ConversionDeviation, ...]


def fitting(how: AnyHow) -> list[ConversionDeviation]:
    """The deviations that a conversion may have, some of them only beside another."""
    if isinstance(how, BlockQuantization | BlockDequantization):
        return of_blocks.fitting(how)
    tables = {
        Cast: CASTS,
        Quantization: QUANTIZATIONS,
        FakeQuantization: QUANTIZATIONS,
        Dequantization: DEQUANTIZATIONS,
    }
    return [deviation for deviation in tables[type(how)] if _fits(deviation, how)]


def singles(how: AnyHow) -> list[Combination]:
    """The deviations that a conversion may have alone."""
    return [(one,) for one in fitting(how) if _agree(how, (one,))]


def combinations(how: AnyHow, of: Iterable[ConversionDeviation]) -> Iterator[Combination]:
    """Two or three of these deviations that can occur together, those with the fewest first."""
    possible = list(of)
    for count in (2, 3):
        for some in itertools.combinations(possible, count):
            if len({deviation.aspect for deviation in some}) == count and _agree(how, some):
                yield some


def _agree(how: AnyHow, some: Iterable[ConversionDeviation]) -> bool:
    # The formula on bits is for float32 only.
    other = deviated(how, some)
    return (
        not (isinstance(other, Cast) and other.half_for_odd)
        or (other.via or other.source) == "float32"
    )
