"""Named deviations: the ways in which conversions go wrong in real runtimes.

A deviation changes rules of a conversion. Several deviations can be combined if each changes
another aspect.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..deviation import NO_REPORT
from ..reference import FLOATS, Bits, bits_type
from .blocks import deviations as of_blocks
from .blocks.quantization import BlockDequantization, BlockQuantization
from .conversion import Cast, How, Quantization, Quotient
from .deviation import AnyHow, ConversionDeviation, deviated
from .reference import cast, divided


def _by_reciprocal(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
    own = BY_NAME[dtype].numpy
    with np.errstate(all="ignore"):
        products: npt.NDArray[Any] = bits.view(own) * (own.type(1) / scales.view(own))
    return products.view(bits.dtype), dtype


def _quotient_in(wide: str) -> Quotient:
    def quotient(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
        own, other = BY_NAME[dtype].numpy, BY_NAME[wide].numpy
        with np.errstate(all="ignore"):
            found = bits.view(own).astype(other) / scales.view(own).astype(other)
        return found.view(bits_type(wide)), wide

    return quotient


def _narrowed_to(narrow: str) -> Quotient:
    def quotient(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
        found = divided(bits, scales, dtype)
        return cast(found, dtype, narrow, "ties_to_even", saturate=False), narrow

    return quotient


def _rounds(name: str, rounding: str, source: str = NO_REPORT) -> ConversionDeviation:
    about = f"always rounds {rounding}"
    return ConversionDeviation(name, "rounding", about, source, {"rounding": rounding})


def _through(narrow: str, source: str) -> ConversionDeviation:
    about = f"converts to {narrow} first: rounds twice"
    return ConversionDeviation(f"through {narrow}", "path", about, source, {"via": narrow})


def _quotient(name: str, about: str, source: str, quotient: Quotient) -> ConversionDeviation:
    return ConversionDeviation(name, "quotient", about, source, {"quotient": quotient})


ROUNDINGS = (
    _rounds("half away from zero", "ties_to_away", "gh:sonos/tract#2850"),
    _rounds("half to even", "ties_to_even"),
    _rounds("truncation", "toward_zero", "gh:microsoft/onnxruntime#18576 (QuantizeLinear)"),
    _rounds("floor", "toward_negative"),
    _rounds("ceil", "toward_positive"),
)
CASTS = (
    *ROUNDINGS,
    _through("float32", "gh:ROCm/rocm-libraries#11787, ml_dtypes' float64"),
    _through("float16", NO_REPORT),
    _through("bfloat16", "gh:flashinfer-ai/flashinfer#5128"),
    ConversionDeviation(
        "half added to odd patterns alone",
        "rounding",
        "(bits + ((bits & 0x10000) >> 1)) >> 16: if the last kept bit is 0, truncates numbers "
        "above a tie",
        "OpenVINO's CPU plugin, to bfloat16",
        {"half_for_odd": True},
    ),
    ConversionDeviation(
        *("saturates", "overflow"),
        "always saturates",
        *("gh:jax-ml/ml_dtypes#400", {"saturate": True}),
    ),
    ConversionDeviation(
        *("does not saturate", "overflow"),
        "never saturates",
        *("gh:pytorch/pytorch#178817", {"saturate": False}),
    ),
    ConversionDeviation(
        *("infinities do not saturate", "overflow", "saturates finite numbers, but not infinities"),
        *("gh:onnx/onnx#6220", {"infinities_saturate": False}),
    ),
    ConversionDeviation(
        *("infinities saturate", "overflow"),
        "saturates infinities, but not finite numbers",
        *(NO_REPORT, {"infinities_saturate": True}),
    ),
    ConversionDeviation(
        *("flush subnormals", "zeros", "reads subnormals as zeros of their sign"),
        *("gh:jax-ml/jax#38995", {"flushed": "operands"}),
    ),
    ConversionDeviation(
        *("flush subnormal results", "zeros"),
        "replaces subnormal results by zeros of their sign",
        *("gh:ahrefs/ocannl#646", {"flushed": "results"}),
    ),
    ConversionDeviation(
        *("zero's sign lost", "zeros", "every zero becomes +0.0"),
        *("gh:ahrefs/ocannl#646", {"zero_signed": False}),
    ),
)
QUANTIZATIONS = (
    *ROUNDINGS,
    _rounds("half toward +infinity", "half_up", "gh:tenstorrent/tt-metal#56525"),
    _quotient(
        *("reciprocal", "multiplies by 1 / scale, which is rounded"),
        *("gh:arch-hdl-lang/arch-com#905, ggml's quantiser", _by_reciprocal),
    ),
    *(
        _quotient(
            f"double rounding through {narrow}",
            f"rounds the quotient to {narrow} first",
            *(NO_REPORT, _narrowed_to(narrow)),
        )
        for narrow in ("float16", "bfloat16")
    ),
    *(
        _quotient(
            f"quotient in {wide}",
            f"always divides in {wide}",
            *(NO_REPORT, _quotient_in(wide)),
        )
        for wide in ("float32", "float64")
    ),
    ConversionDeviation(
        *("zero point inside", "zero point", "adds the zero point before it rounds"),
        *("gh:pytorch/pytorch#58130", {"zero_point_inside": True}),
    ),
    ConversionDeviation(
        *("reciprocal, fused with the zero point", "quotient"),
        "fma(x, 1 / scale, zero point), rounded once more",
        *("PyTorch's quantize_per_tensor on CPUs", {"fused": True}),
    ),
    ConversionDeviation(
        *("through int32", "overflow"),
        "quotients beyond int32 become the least value",
        *("ONNX's reference evaluator", {"through_int32": True}),
    ),
    ConversionDeviation(
        *("no saturation", "overflow", "keeps the last bits of larger numbers"),
        *(NO_REPORT, {"wraps": True}),
    ),
)


def _fits(deviation: ConversionDeviation, how: How) -> bool:
    if deviation.changes_nothing(how):
        return False
    if not isinstance(how, Cast):
        return True
    if "half_for_odd" in deviation.changes:
        return how.target == "bfloat16"
    has_saturation = FLOATS[how.target].width == 8
    if deviation.aspect == "path":
        via = FLOATS[str(deviation.changes["via"])]
        own, fmt = FLOATS[how.source], FLOATS[how.target]
        return own.fraction_bits > via.fraction_bits > fmt.fraction_bits
    return deviation.aspect != "overflow" or has_saturation


#: Deviations that occur together.
Combination = tuple[ConversionDeviation, ...]


def fitting(how: AnyHow) -> list[ConversionDeviation]:
    """The deviations that a conversion may have, some of them only beside another."""
    if isinstance(how, BlockQuantization | BlockDequantization):
        return of_blocks.fitting(how)
    table = {Cast: CASTS, Quantization: QUANTIZATIONS}.get(type(how), ())
    return [deviation for deviation in table if _fits(deviation, how)]


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
