"""Named deviations of block formats; ``source`` is as in the other tables of deviations."""

from __future__ import annotations

from typing import Any

from ...deviation import NO_REPORT
from ..deviation import ConversionDeviation
from .formats import RULES
from .quantization import E1M2, BlockHow, BlockQuantization


def _deviation(
    aspect: str, name: str, source: str = NO_REPORT, **changes: Any
) -> ConversionDeviation:
    return ConversionDeviation(name, aspect, name, source, changes)


_TE = "gh:NVIDIA/TransformerEngine#3262"
_TT = "gh:tenstorrent/tt-metal#51971"
_RECIPROCALS = "gh:radixark/miles#1261, gh:RobTand/prismaquant#567, gh:arch-hdl-lang/arch-com#905"
#: What calls clamp amax by, so as not to divide by zero.
_LEASTS = {
    1e-4: "gh:deepseek-ai/DeepGEMM#109",
    1e-5: NO_REPORT,
    1e-8: NO_REPORT,
    1e-10: "gh:NovaSky-AI/SkyRL#1898",
    1e-12: "gh:vllm-project/vllm#32201",
}
_MLX = "MLX 0.32's mxfp4, gguf 0.19's"
_RULES = {
    **dict.fromkeys(("floor", "rceil"), "gh:ROCm/aiter#3212"),
    "even": "gh:ROCm/aiter#2976",
}
_ROUNDED_DOWN = "scale by amax / largest, rounded down"
_NEAREST = "scale by amax / largest, rounded to nearest"
_BY_2_126 = "divided by 2^-126 where the scale is 2^-127"
_NOT_BY_2_127 = "not divided where the scale is 2^-127"
QUANTIZATIONS = (
    _deviation("rounding", "ties away", "gh:ROCm/aiter#2247", element_rounding="ties_to_away"),
    _deviation("rounding", "ties toward zero", "modelopt", element_rounding="ties_to_zero"),
    _deviation("rounding", "truncation", element_rounding="toward_zero"),
    *(_deviation("rule", f"scale by {r}", _RULES.get(r, NO_REPORT), rounding=r) for r in RULES),
    _deviation("rule", _ROUNDED_DOWN, "gh:vllm-project/vllm#43557", rounding="rfloor"),
    _deviation("rule", _NEAREST, "gh:ml-explore/mlx#4353", rounding="rnearest"),
    _deviation("amax", "amax in bfloat16", amax_in="bfloat16"),
    _deviation("amax", "amax in float16", amax_in="float16"),
    _deviation("amax", "max for absmax", "gh:vllm-project/vllm#20578", amax_of="largest"),
    *(
        _deviation("amax", f"amax at least {least:g}", source, least_amax=least)
        for least, source in _LEASTS.items()
    ),
    _deviation("amax", "amax * (1 / largest)", by_reciprocal=True),
    _deviation("amax", "operands in bfloat16", operands_in="bfloat16"),
    _deviation("shift", "scale one too large", scale_shift=1),
    _deviation("shift", "scale one too small", scale_shift=-1),
    _deviation("ends", "scale wraps beyond the ends of E8M0", _MLX, scale_wraps=True),
    _deviation("rule", "emax forgotten", rounding="own"),
    _deviation("rule", "scale by frexp of amax / largest", rounding="rfrexp"),
    _deviation("tensor", "tensor scale inverted", "gh:modular/modular#6600", tensor="inverted"),
    _deviation("tensor", "tensor scale for scales alone", tensor="of scales"),
    _deviation("least", "least scales raised to normal ones", "torchao", least_stored="normal"),
    _deviation("divisor", "subnormal scales decoded as normal", least_divisor="as normal"),
    _deviation("divisor", _BY_2_126, "gh:pytorch/ao#4725", least_divisor="normal"),
    _deviation("divisor", _NOT_BY_2_127, f"torchao, {_TE}", least_divisor="one"),
    *(
        _deviation("divisor", f"divided by the scale of {r}", "gh:kekzl/imp#250", divisor=r)
        for r in RULES
    ),
    _deviation("divisor", "divided by the scale before it was rounded", divisor="unrounded"),
    _deviation("steps", "scale in float32 steps", "torchao", scale_in_float32=True),
    _deviation("steps", "log2 in float32", "torchao", scale_in_float32=True),
    _deviation("quotient", "reciprocal", _RECIPROCALS, quotient="reciprocal"),
    _deviation("quotient", "reciprocal by parts", "torchao", quotient="reciprocal by parts"),
    _deviation("quotient", "quotient in float32", quotient="float32"),
    _deviation("quotient", "quotient in bfloat16", quotient="bfloat16"),
    _deviation("quotient", "quotient in float16", quotient="float16"),
    _deviation("overflow", "no saturation", saturated=False),
    _deviation("subnormals", "subnormal elements flushed", subnormals="flushed"),
    _deviation("subnormals", "subnormal elements truncated", subnormals="truncated"),
    _deviation("subnormals", "subnormal elements a binade too small", _TT, subnormals="halved"),
    _deviation("zeros", "zero's sign lost", zeros="positive"),
    _deviation("zeros", "every zero negative", "modelopt", zeros="negative"),
    _deviation("elements", "elements of E1M2", numbers=E1M2),
)
DEQUANTIZATIONS = (
    _deviation("least", "2^-127 as 2^-126", "gh:pytorch/ao#4725", least="normal"),
    _deviation("least", "2^-127 as zero", _TE, least="zero"),
    _deviation("least", "subnormal scales decoded as normal", least="as normal"),
    _deviation("scale", "E8M0 with bias 128", factor=0.5),
    _deviation("tensor", "tensor scale inverted", "gh:modular/modular#6600", tensor="inverted"),
    _deviation("nan", "NaN as 480", nan=480.0),
    _deviation("element's nan", "NaN as 480", nan_is_next=True),
    _deviation("nan", "scale 255 as infinity", _TE, nan=float("inf")),
    _deviation("nan", "scale 255 as 2^128", nan=2.0**128),
    _deviation("scale", "scale rounded to the result's type", "torchao", scale_in_result=True),
    _deviation("product", "product in bfloat16", product_in="bfloat16"),
    _deviation("product", "product in float16", product_in="float16"),
    _deviation("subnormals", "subnormal elements flushed", subnormals=0.0),
    _deviation("subnormals", "subnormal elements a binade too small", _TT, subnormals=0.5),
    _deviation("zeros", "zero's sign lost", zeros="positive"),
    _deviation("elements", "elements of E1M2", numbers=E1M2),
)
#: The formats that a deviation, or an aspect, is possible in; without an entry all.
_FLOATS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4")
_MX = (*_FLOATS[:5], "mxint8")
_FORMATS = {
    **dict.fromkeys(("zeros", "subnormals"), _FLOATS),
    **dict.fromkeys(
        (
            _BY_2_126,
            _NOT_BY_2_127,
            "log2 in float32",
            "shift",
            "ends",
            "emax forgotten",
            "scale by rceil",
            "divided by the scale of rceil",
            _ROUNDED_DOWN,
            _NEAREST,
            "2^-127 as 2^-126",
            "2^-127 as zero",
            "scale 255 as infinity",
            "scale 255 as 2^128",
            "scale by frexp of amax / largest",
            "E8M0 with bias 128",
        ),
        _MX,
    ),
    **dict.fromkeys(
        (
            "reciprocal",
            "quotient in float32",
            "product in bfloat16",
            "reciprocal by parts",
            "scale in float32 steps",
            "tensor",
            "subnormal scales decoded as normal",
            "nan",
        ),
        ("nvfp4",),
    ),
    "element's nan": ("mxfp8_e4m3",),
    "amax * (1 / largest)": (*_MX, "nvfp4"),
    "elements": ("mxfp4_e2m1", "nvfp4"),
}


def fitting(how: BlockHow) -> list[ConversionDeviation]:
    """The deviations that are possible here."""
    quantizes = isinstance(how, BlockQuantization)
    same = {f"divided by the scale of {how.rounding}"}
    if how.tensor_scale == 1:
        same |= {"reciprocal by parts", "tensor scale inverted", "tensor scale for scales alone"}
    return [
        row
        for row in (QUANTIZATIONS if quantizes else DEQUANTIZATIONS)
        if how.format.name in (_FORMATS.get(row.name) or _FORMATS.get(row.aspect) or _MX + _FLOATS)
        if row.name not in same and not row.changes_nothing(how)
    ]
