"""Named deviations: the ways in which conversions go wrong in real runtimes.

A deviation changes rules of a conversion. Several deviations can be combined if each changes
another aspect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..deviation import NO_REPORT
from ..reference import Bits
from .conversion import Quotient, computed
from .deviation import ConversionDeviation
from .linear import divided
from .reference import cast


def _narrowed_to(narrow: str) -> Quotient:
    def quotient(bits: Bits, scales: Bits, types: tuple[str, str], dtype: str) -> tuple[Bits, str]:
        found, kind = divided(bits, scales, types, dtype)
        return cast(found, kind, narrow, "ties_to_even", saturate=False), narrow

    return quotient


def _deviation(
    aspect: str, name: str, about: str, source: str = NO_REPORT, **changes: Any
) -> ConversionDeviation:
    return ConversionDeviation(name, aspect, about, source, changes)


ROUNDINGS = (
    *(
        _deviation("rounding", name, f"always rounds {rounding}", source, rounding=rounding)
        for name, rounding, source in (
            ("half away from zero", "ties_to_away", "gh:sonos/tract#2850"),
            ("half to even", "ties_to_even", NO_REPORT),
            ("truncation", "toward_zero", "gh:microsoft/onnxruntime#18576 (QuantizeLinear)"),
            ("floor", "toward_negative", NO_REPORT),
            ("ceil", "toward_positive", NO_REPORT),
        )
    ),
    *(
        _deviation("rounding", name, f"rounds ties {to}", source, rounding=name)
        for name, to, source in (
            ("half toward +infinity", "up", "gh:tenstorrent/tt-metal#56525"),
            ("half toward -infinity", "down", NO_REPORT),
            ("half toward zero", "toward zero", NO_REPORT),
        )
    ),
)
TO_ODD = _deviation(
    "rounding", "half to odd", "rounds ties to the odd number", NO_REPORT, rounding="half to odd"
)
CASTS = (
    *ROUNDINGS,
    TO_ODD,
    *(
        _deviation(
            "path",
            f"through {narrow}",
            f"converts to {narrow} first: rounds twice",
            source,
            via=narrow,
        )
        for narrow, source in (
            ("float32", "gh:ROCm/rocm-libraries#11787, ml_dtypes' float64"),
            ("float16", NO_REPORT),
            ("bfloat16", "gh:flashinfer-ai/flashinfer#5128"),
            ("TF32", NO_REPORT),
            ("float64", NO_REPORT),
        )
    ),
    _deviation(
        "path",
        "by way of int32",
        "converts to int32 first, as x86 does",
        "OpenVINO's CPU plugin",
        via="int32",
    ),
    _deviation(
        "path",
        "by the high word",
        "drops the low 32 bits of a float64 first",
        "gh:VoidStarKat/half-rs#151",
        via="high word",
    ),
    _deviation(
        "rounding",
        "truncation, beyond the largest infinity",
        "truncates, but numbers beyond the largest become infinity",
        rounding="truncated",
    ),
    _deviation(
        "rounding",
        "half added to odd patterns alone",
        "(bits + ((bits & 0x10000) >> 1)) >> 16: if the last kept bit is 0, truncates numbers "
        "above a tie",
        "OpenVINO's CPU plugin, to bfloat16",
        half_for_odd=True,
    ),
    _deviation(
        "rounding",
        "carry ORed into the exponent",
        "a significand that is rounded up to 2 sets the exponent's last bit, in place of adding 1",
        carry_ored=True,
    ),
    _deviation(
        "overflow", "saturates", "always saturates", "gh:jax-ml/ml_dtypes#400", saturate=True
    ),
    _deviation(
        "overflow",
        "does not saturate",
        "never saturates",
        "gh:pytorch/pytorch#178817",
        saturate=False,
    ),
    _deviation(
        "overflow",
        "infinities do not saturate",
        "saturates finite numbers, but not infinities",
        "gh:onnx/onnx#6220",
        saturate=True,
        infinities_saturate=False,
    ),
    _deviation(
        "overflow",
        "infinities saturate",
        "saturates infinities, but not finite numbers",
        saturate=False,
        infinities_saturate=True,
    ),
    *(
        _deviation("overflow", name, about, source, rule=rule)
        for name, rule, about, source in (
            ("wraps", "wrap", "keeps the low bits of integers out of range", NO_REPORT),
            (
                "x86's indefinite integer",
                "x86",
                "converts to 32 or 64 bits, what does not fit to the least integer; keeps low bits",
                "NumPy on x86",
            ),
            (
                "ARM's conversion",
                "arm",
                "converts to 32 or 64 bits, saturated; keeps low bits",
                NO_REPORT,
            ),
        )
    ),
    _deviation(
        "zeros",
        "flush subnormals",
        "reads subnormals as zeros of their sign",
        "gh:jax-ml/jax#38995",
        flushed="operands",
    ),
    _deviation(
        "zeros",
        "flush subnormal results",
        "replaces subnormal results by zeros of their sign",
        "gh:ahrefs/ocannl#646",
        flushed="results",
    ),
    _deviation(
        "zeros",
        "flush before rounding",
        "replaces numbers below the least normal result by zeros, those too that are rounded to it",
        flushed="before",
    ),
    _deviation(
        "zeros",
        "zero's sign lost",
        "every zero becomes +0.0",
        "gh:ahrefs/ocannl#646",
        zero_signed=False,
    ),
    *(
        _deviation(
            "type",
            f"{name} as {other}",
            f"reads or writes the one as the other: {about}",
            source,
            mistaken=types,
        )
        for name, other, about, source, types in (
            (
                "E4M3FN",
                "E4M3FNUZ",
                "numbers double, or are halved",
                "gh:uccl-project/uccl#804",
                ("float8_e4m3fn", "float8_e4m3fnuz"),
            ),
            (
                "E4M3FN",
                "IEEE's E4M3",
                "numbers from 256 on are infinity and NaNs",
                NO_REPORT,
                ("float8_e4m3fn", "float8_e4m3"),
            ),
            (
                "E5M2",
                "E5M2FNUZ",
                "numbers double, or are halved",
                NO_REPORT,
                ("float8_e5m2", "float8_e5m2fnuz"),
            ),
        )
    ),
    _deviation(
        "nans",
        "NaN as infinity",
        "drops the low bits of NaNs; without the others they are infinities",
        "gh:dotnet/runtime#130583",
        nans="cut",
    ),
    _deviation(
        "nans",
        "NaN rounded as a number",
        "adds a half to NaNs too: some become infinities or zeros",
        "ncnn's float32 to bfloat16, in the tail of an array",
        nans="carried",
    ),
    *(
        _deviation("nans", f"NaN as {name}", "every NaN becomes this number", nans=nans)
        for name, nans in (
            ("0", "zero"),
            ("the least integer", "least"),
            ("the greatest integer", "greatest"),
        )
    ),
)
_NARROW_SCALES = [
    _deviation("scale", f"scale in {narrow}", "rounds the scale to the type first", scale_in=narrow)
    for narrow in ("float16", "bfloat16")
]
_FIRST_SCALE = _deviation(
    "scale",
    "first channel's scale for all",
    "takes the first scale for every channel or block",
    first_scale=True,
)
_FLUSHED_SCALES = _deviation(
    "scale",
    "subnormal scales flushed",
    "reads subnormal scales as zeros, as float8_e8m0fnu's 2^-127 is in float32",
    flushed_scales=True,
)
QUANTIZATIONS = (
    *ROUNDINGS,
    _deviation(
        "zero point",
        "zero point forgotten",
        "adds nothing",
        "ONNX Runtime's 8-bit floats",
        zero_point_forgotten=True,
    ),
    # Before ties to odd, which have the same results beside an odd zero point.
    _deviation(
        "zero point",
        "zero point inside",
        "adds the zero point before it rounds",
        "gh:pytorch/pytorch#58130",
        zero_point_inside=True,
    ),
    TO_ODD,
    *(
        _deviation("rounding", name, f"rounds the quotient by {about}", rounding=name)
        for name, about in (
            ("floor(q + 0.5)", "a half that is added in its type"),
            ("trunc(q + copysign(0.5, q))", "a half with its sign, added in its type"),
            ("trunc(q + 0.5)", "a half, and truncation: negatives come out too large"),
        )
    ),
    _deviation(
        "quotient",
        "precision ignored",
        "rounds the quotient to the type of the scale",
        precision="",
    ),
    *(
        _deviation(
            "quotient",
            f"double rounding through {narrow}",
            "rounds the quotient to the type first",
            quotient=_narrowed_to(narrow),
        )
        for narrow in ("float16", "bfloat16")
    ),
    *(
        _deviation(
            "quotient",
            f"quotient in {wide}",
            "always divides in the type",
            quotient=computed(np.divide, wide),
        )
        for wide in ("float32", "float64")
    ),
    _deviation(
        "quotient",
        "operands rounded first",
        "rounds operand and scale to the quotient's type, then divides",
        "ONNX Runtime's float16",
        quotient=computed(np.divide),
    ),
    # Behind division, which is the same by a power of two.
    _deviation(
        "quotient",
        "reciprocal",
        "multiplies by 1 / scale, which is rounded",
        "gh:arch-hdl-lang/arch-com#905, ggml's quantiser",
        quotient=computed(lambda x, by: x * (by.dtype.type(1) / by)),
    ),
    *(
        _deviation(
            "zero point",
            f"clamped before the zero point{more}",
            f"clamps the quotient, adds the zero point, and {about}",
            source,
            clamped_first=how,
        )
        for more, about, source, how in (
            ("", "keeps the last bits", "gh:tensorflow/tflite-micro#3627", "wraps"),
            (" and after it", "clamps the sum too", NO_REPORT, "saturates"),
        )
    ),
    _deviation(
        "quotient",
        "reciprocal, fused with the zero point",
        "fma(x, 1 / scale, zero point), rounded once more",
        "PyTorch's quantize_per_tensor on CPUs",
        fused=True,
    ),
    # The scales may no longer be positive and finite.
    *(
        replace(one, changes={**one.changes, "quotient": computed(np.divide)})
        for one in _NARROW_SCALES
    ),
    _FLUSHED_SCALES,
    _FIRST_SCALE,
    _deviation(
        "sign",
        "magnitude of negatives",
        "loses the sign of the quotient",
        magnitudes=True,
    ),
    _deviation(
        "overflow",
        "through int32",
        "quotients beyond int32 become the least value",
        "ONNX's reference evaluator",
        through_int32=True,
    ),
    _deviation("overflow", "no saturation", "keeps the last bits of larger numbers", wraps=True),
    *(cast for cast in CASTS if cast.name in ("saturates", "does not saturate")),
    _deviation(
        "overflow",
        "narrow range",
        "leaves out the least integer of a signed type: [-127, 127]",
        "TensorFlow's and symmetric quantizers",
        narrow=True,
    ),
)
DEQUANTIZATIONS = (
    *_NARROW_SCALES,
    _FLUSHED_SCALES,
    _FIRST_SCALE,
    _deviation(
        "zero point",
        "difference wraps",
        "subtracts the zero point in the integers' type",
        "gh:pytorch/executorch#20655",
        wraps=True,
    ),
    _deviation(
        "zero point",
        "zero point scaled",
        "x * scale - zero point * scale: rounds three times",
        zero_point="scaled",
    ),
    _deviation("zero point", "zero point forgotten", "subtracts nothing", zero_point="forgotten"),
    *(
        _deviation(
            "product", f"product in {kind}", "rounds the product to the type", product_in=kind
        )
        for kind in ("float16", "bfloat16", "float32")
    ),
    _deviation(
        "zeros", "flush subnormal results", "replaces subnormal results by zeros", flushed=True
    ),
)
