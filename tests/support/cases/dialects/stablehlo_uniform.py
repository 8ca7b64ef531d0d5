"""``stablehlo``: uniform_quantize and uniform_dequantize, whose types have the scales."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import Model, OperatorCases, datatypes
from tensor_round.contract.functions import Quantize

FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
CODES = {
    "i4": "int4", "i8": "int8", "i16": "int16", "u4": "uint4", "u8": "uint8", "u16": "uint16",
}  # fmt: skip
PER_AXIS = "!quant.uniform<i8:f32:1, {0.1:-30, 0.5:-20, 1.0:0}>"
WHOLE = "!quant.uniform<i8:f32, 0.1:-30>"
ANY_QUANTIZE: Any = tr.StableHLOUniformQuantize
ANY_DEQUANTIZE: Any = tr.StableHLOUniformDequantize
#: Seconds of work for one text.
LONG = f"!quant.uniform<i8:f32:0, {{{','.join(['0.1'] * 100_000)}}}>"
TAKES = "stablehlo takes a quantized type such as !quant.uniform<i8:f32, 0.1:-5>, got"
#: Element types that break a rule, and why.
BROKEN = {
    "quant.uniform<i8:f32, 0.1>": "",
    "!quant.uniform<i8:f32>": TAKES,
    "!quant.uniform<i8:f64, 0.1>": "takes f16, bf16, f32 as expressed type, got f64",
    "!quant.uniform<i32:f32, 0.1>": "takes i4, i8, i16, u4, u8, u16 as storage type",
    "!quant.uniform<i16:f16, 0.1>": "i16 must have fewer bits than f16",
    "!quant.uniform<i8<-129:127>:f32, 0.1>": "must be in order, from -128 to 127",
    "!quant.uniform<u8<5:5>:f32, 0.1:5>": "must be in order, from 0 to 255, got 5 and 5",
    "!quant.uniform<i8:f32, 0.0>": "a scale must be positive and finite, got 0.0",
    "!quant.uniform<i8:f32, -0.1>": "a scale must be positive and finite, got -0.1",
    "!quant.uniform<i8:f32, 1e39>": "a scale must be positive and finite, got 1e39",
    "!quant.uniform<i8:f16, 1e-9>": "a scale must be positive and finite, got 1e-9",
    "!quant.uniform<i8<-127:127>:f32, 1:-128>": "a zero point must be from -127 to 127",
    "!quant.uniform<i8:f32, {0.1}>": "a list of scales needs a dimension",
    "!quant.uniform<i8:f32:1, 0.1>": "a list of scales needs a dimension",
    "!quant.uniform<i8:f32, x>": "must have scales, or scale:zero_point",
    "!quant.uniform<i8:f32:2, {0.1}>": "dimension 2 must be less than the rank",
    "!quant.uniform<i8:f32:1, {0.1, 0.2}>": "must have 3 scales, as dimension 1 has elements",
}


def tensors(field: str) -> list[tuple[str, Any, str]]:
    """Refusals of a quantized tensor."""
    return [
        (field, f"tensor<2x3x{element}>", why or "stablehlo takes tensor<2x3x!quant.uniform<...>>")
        for element, why in BROKEN.items()
    ]


def named(types: dict[str, str], dtype: str) -> str:
    """The name of a dtype; its own if it has none."""
    return next((name for name, one in types.items() if one == dtype), dtype[:8])


CASES = {
    "stablehlo:uniform_quantize": OperatorCases(
        example={
            "dialect": "stablehlo",
            "op": "uniform_quantize",
            "operand": "tensor<2x3xf32>",
            "result": f"tensor<2x3x{PER_AXIS}>",
        },
        operator=(tr.StableHLOUniformQuantize(PER_AXIS), "<f4"),
        word="stablehlo:uniform_quantize",
        dtypes={**FLOATS, **CODES},
        rounds_to_integral=False,
        accepted=[
            (
                {"result": "tensor<2x3x!quant.uniform<u4<1:14>:f32, 0.5:3>>"},
                {"output.dtype.name": "uint4", "function": Quantize(limits=(1, 14))}
                | {"parameters.blocks": (2, 3), "parameters.constants": b"\0\0\0\x3f\x03"},
            ),
            (
                {"result": "tensor<2x3x!quant.uniform<i8<-128:127>:f32:0, {1.0:1,2.0e0}>>"},
                {"function": Quantize(), "parameters.blocks": (1, 3)}
                | {"parameters.constants": b"\0\0\x80\x3f\0\0\0\x40\x01\0"},
            ),
            (
                # Between two float32, beside their middle by less than float64 tells.
                {"result": "tensor<2x3x!quant.uniform<i8:f32, 1.00000005960464477540>>"},
                {"parameters.constants": b"\x01\0\x80\x3f\0"},
            ),
            (
                {"result": "tensor<2x3x!quant.uniform<i8:f32, 1.00000017881393432617>>"},
                {"parameters.constants": b"\x01\0\x80\x3f\0"},
            ),
            ({"op": "stablehlo.uniform_quantize"}, None),
        ],
        refusals=[
            *tensors("result"),
            ("result", f"tensor<3x3x{PER_AXIS}>", "must have the operand's sizes"),
            ("operand", "tensor<2x3xf64>", "uniform_quantize takes f16, bf16, f32"),
            ("scale", 0.1, "unknown field"),
        ],
        broken=[
            (
                {"operand": "tensor<2x3xf16>"},
                {"result": "its expressed type must be the operand's"},
            )
        ],
        refused=[
            (lambda: ANY_QUANTIZE("i8"), "quantized_type", "takes a quantized type"),
            (lambda: ANY_QUANTIZE(8), "quantized_type", "takes a quantized type"),
            (lambda: ANY_QUANTIZE(LONG), "quantized_type", "must have at most 16384 characters"),
            (
                lambda: ANY_QUANTIZE(WHOLE).descriptor("float16", [2]),
                "operand",
                "takes float32 here, got float16",
            ),
        ],
        words={f"stablehlo:uniform_quantize:{WHOLE}": tr.StableHLOUniformQuantize(WHOLE)},
        wrong_words={
            "stablehlo": "write stablehlo:uniform_quantize:QUANTIZED_TYPE",
            "stablehlo:uniform_quantize:i8": "takes a quantized type",
        },
        spelling="stablehlo:uniform_quantize:QUANTIZED_TYPE",
        taking=lambda dtype: ANY_QUANTIZE(f"!quant.uniform<i4:{named(FLOATS, dtype)}, 1>"),
        model=Model(
            "stablehlo_uniform_quantize",
            "operand",
            "result",
            None,
            {"1": (datatypes(FLOATS.values()), "0-32")},
            quantized=("result",),
        ),
    ),
    "stablehlo:uniform_dequantize": OperatorCases(
        example={
            "dialect": "stablehlo",
            "op": "uniform_dequantize",
            "operand": f"tensor<2x3x{WHOLE}>",
        },
        operator=(tr.StableHLOUniformDequantize(WHOLE), "i1"),
        word="stablehlo:uniform_dequantize",
        dtypes={**FLOATS, **CODES},
        rounds_to_integral=False,
        accepted=[
            (
                {"operand": "tensor<0x!quant.uniform<u8:bf16, 2:9>>"},
                {"output.dtype.name": "bfloat16", "input.dtype.name": "uint8"},
            )
        ],
        refusals=tensors("operand"),
        refused=[],
        words={f"stablehlo:uniform_dequantize:{WHOLE}": tr.StableHLOUniformDequantize(WHOLE)},
        spelling="stablehlo:uniform_dequantize:QUANTIZED_TYPE",
        taking=lambda dtype: ANY_DEQUANTIZE(f"!quant.uniform<{named(CODES, dtype)}:f32, 1>"),
        model=Model(
            "stablehlo_uniform_dequantize",
            "operand",
            "result",
            None,
            {"1": (datatypes(CODES.values()), "0-32")},
            quantized=("operand",),
        ),
    ),
}
