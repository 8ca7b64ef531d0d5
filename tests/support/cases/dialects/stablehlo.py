"""``stablehlo``: four operations, convert, reduce_precision, and types as programs spell them."""

from __future__ import annotations

import math
from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    MLIR_TYPES,
    Example,
    Model,
    OperatorCases,
    by_mode,
    conversion,
    datatypes,
)
from support.cases.dialects.stablehlo_uniform import CASES as LINEAR
from tensor_round.contract.functions import ReducePrecision
from tensor_round.contract.rounding import Rounding

OPS = {
    "round_nearest_even": Rounding.TIES_TO_EVEN,
    "round_nearest_afz": Rounding.TIES_TO_AWAY,
    "floor": Rounding.TOWARD_NEGATIVE,
    "ceil": Rounding.TOWARD_POSITIVE,
}
SHAPES: dict[str, tuple[int, ...]] = {
    "tensor<f32>": (),
    "tensor<0xf32>": (0,),
    "tensor<3x0x2xf32>": (3, 0, 2),
    f"tensor<{'1x' * 32}f32>": (1,) * 32,
    f"tensor<{2**63 - 1}xf8E5M2>": (2**63 - 1,),
}
NO_TYPE = "takes a tensor type such as tensor<2x3xf16>, got "
NO_OPERANDS = {
    "": NO_TYPE,
    "f16": NO_TYPE,
    "tensor<>": NO_TYPE,
    "tensor<2x3xf16": NO_TYPE,
    "tensor<2x3xf16> ": NO_TYPE,
    "tensor<02xf16>": NO_TYPE,
    "tensor<\u0662xf16>": NO_TYPE,
    "tensor<?x3xf16>": "takes dimensions with sizes here, got",
    f"tensor<{2**63}xf16>": "takes sizes of 0 to 2^63-1, got",
    f"tensor<{'9' * 5000}xf16>": "takes sizes of 0 to 2^63-1, got",
    f"tensor<{'1x' * 33}f16>": "takes at most 32 dimensions here, got 33",
    "tensor<2xi32>": "got i32; stablehlo: rounding takes f16, bf16, f32, ",
    "tensor<2xf8E3M4>": "got f8E3M4; stablehlo: ",
    "tensor<2xf8E8M0FNU>": "got f8E8M0FNU: it is not closed under rounding",
    "tensor<2xF32>": NO_TYPE,
    f"tensor<2x{'f' * 5000}>": NO_TYPE,
    "tensor<2x!quant.uniform<i8:f32, 0.5>>": "takes a quantized type only as the result of",
    "tensor<2xf16, #stablehlo.bounds<2>>": NO_TYPE,
}
MODEL = Model(
    "stablehlo_round_nearest",
    "operand",
    "result",
    "op",
    {"1": (datatypes(MLIR_TYPES.values()), "0-32")},
)
#: Called as by someone whom no type checker stops.
ANY: Any = tr.StableHLORound
#: float4_e2m1fn has no 2.5.
NOT_4_BITS = tuple(name for name in MLIR_TYPES.values() if name != "float4_e2m1fn")
#: The example that both of its roundings to nearest have, and the rules of the other two.
X = (-2.5, 0.4, 0.5, 0.6, 2.5)
RESULTS: dict[Any, tuple[float, ...]] = {
    "round_nearest_even": (-2, 0, 0, 1, 2),
    "round_nearest_afz": (-3, 0, 1, 1, 3),
    "floor": (-3, 0, 0, 0, 2),
    "ceil": (-2, 1, 1, 1, 3),
}

ROUND = OperatorCases(
    example={"dialect": "stablehlo", "op": "round_nearest_afz", "operand": "tensor<2x3xf16>"},
    operator=(tr.StableHLORound("stablehlo.round_nearest_afz"), "float16"),
    word="stablehlo",
    dtypes=MLIR_TYPES,
    modes=OPS,
    accepted=[
        *[
            (
                {"op": prefix + op, "operand": f"tensor<5x{element}>"},
                {"input.dtype.name": dtype, "rounding": rounding},
            )
            for element, dtype in MLIR_TYPES.items()
            for op, rounding in OPS.items()
            for prefix in ("", "stablehlo.")
        ],
        *[({"operand": operand}, {"output.shape": shape}) for operand, shape in SHAPES.items()],
    ],
    refusals=[
        ("op", "round", "; stablehlo: this dialect takes round_nearest_even, round_nearest_afz, "),
        ("operand", {"shape": [2]}, "must be a string"),
    ],
    broken=(*[({"operand": operand}, {"operand": why}) for operand, why in NO_OPERANDS.items()],),
    refused=[(lambda: ANY("round"), "op", "round_nearest_afz")],
    words={
        "stablehlo:round_nearest_afz": tr.StableHLORound("round_nearest_afz"),
        "stablehlo:stablehlo.round_nearest_even": tr.StableHLORound(),
    },
    wrong_words={
        "stablehlo": "write stablehlo:OP",
        "stablehlo:round": 'got "round"; stablehlo takes round_nearest_even, round_nearest_afz',
        "stablehlo:convert": 'got "stablehlo:convert": it needs to, the target type',
    },
    spelling="stablehlo:OP (round_nearest_even, round_nearest_afz, floor, ceil)",
    model=MODEL,
    examples=by_mode({op: (X, y) for op, y in RESULTS.items()}, NOT_4_BITS),
)

CONVERTED = {
    **MLIR_TYPES,
    "f8E8M0FNU": "float8_e8m0fnu",
    **{f"i{width}": f"int{width}" for width in (4, 8, 16, 32, 64)},
    **{f"ui{width}": f"uint{width}" for width in (4, 8, 16, 32, 64)},
}
ANY_CONVERT: Any = tr.StableHLOConvert
ANY_REDUCE: Any = tr.StableHLOReducePrecision

CONVERT = OperatorCases(
    example={
        "dialect": "stablehlo",
        "op": "convert",
        "operand": "tensor<2x3xf32>",
        "result": "tensor<2x3xf16>",
    },
    operator=(tr.StableHLOConvert("float16"), "float32"),
    word="stablehlo:convert",
    dtypes=CONVERTED,
    rounds_to_integral=False,
    accepted=[
        *[
            (
                {"operand": f"tensor<5x{source}>", "result": f"tensor<5x{target}>"},
                {
                    "input.dtype.name": CONVERTED[source],
                    "output.dtype.name": CONVERTED[target],
                    "function": conversion(CONVERTED[source], CONVERTED[target]),
                },
            )
            for source in CONVERTED
            for target in ("f64", "bf16", "f8E5M2", "i8", "ui64", source)
        ],
        *[
            (
                {"operand": operand, "result": operand.replace("f32", "f16")},
                {"output.shape": shape},
            )
            for operand, shape in SHAPES.items()
        ],
        ({"op": "stablehlo.convert"}, None),
    ],
    refusals=[
        ("result", "tensor<2x3xi1>", "got i1; stablehlo: convert takes f16, bf16, f32, f64, f8E4"),
        ("result", "tensor<2x3xsi8>", "got si8; stablehlo: convert takes"),
        ("result", "tensor<3x2xf16>", "stablehlo: convert: must have the operand's sizes"),
        ("result", "tensor<6xf16>", "stablehlo: convert: must have the operand's sizes"),
        ("result", "f16", NO_TYPE),
        ("result", None, "must be a string, got null"),
        ("operand", "tensor<2x3xcomplex<f32>>", NO_TYPE),
        ("operand", "tensor<2x3xi2>", "got i2; stablehlo: convert takes"),
    ],
    refused=[
        (lambda: ANY_CONVERT("bool"), "result", "got bool; stablehlo: convert takes"),
        (lambda: ANY_CONVERT("int8").prepare("str", (2,)), "operand", "got str; stablehlo: conv"),
    ],
    words=dict.fromkeys(
        ("stablehlo", "stablehlo:convert", "stablehlo:stablehlo.convert"),
        tr.StableHLOConvert("float16"),
    ),
    wrong_words={
        "stablehlo:ceil": 'got "stablehlo:ceil": it does not cast to a type',
        "stablehlo:convert:f16": "write stablehlo:convert",
    },
    spelling="stablehlo:convert",
    model=Model(
        "stablehlo_convert",
        "operand",
        "result",
        None,
        {"1": (datatypes(CONVERTED.values()), "0-32")},
    ),
    # By its interpreter's tests: exact numbers, fractions cut off, and ties to even.
    examples={
        "to i8": Example((-1.75, 0.5, 2.5, -128), (-1, 0, 2, -128), ("bfloat16",), to="int8"),
        "to f16": Example(
            (2049, 65519, 65520), (2048, 65504, math.inf), ("float64",), to="float16"
        ),
        "to f32": Example((2**24 + 1, 2**24 + 3), (2**24, 2**24 + 4), ("int64",), to="float32"),
    },
)

REDUCE = OperatorCases(
    example={
        "dialect": "stablehlo",
        "op": "reduce_precision",
        "exponent_bits": 5,
        "mantissa_bits": 10,
        "operand": "tensor<2x3xf32>",
    },
    operator=(tr.StableHLOReducePrecision(5, 10), "float32"),
    word="stablehlo:reduce_precision:5:10",
    dtypes=MLIR_TYPES,
    rounds_to_integral=False,
    accepted=[
        *[
            (
                {
                    "operand": f"tensor<2x3x{element}>",
                    "op": f"{prefix}reduce_precision",
                    "exponent_bits": exponent_bits,
                    "mantissa_bits": mantissa_bits,
                },
                {
                    "input.dtype.name": dtype,
                    "output.dtype.name": dtype,
                    "is_in_place": True,
                    "function": ReducePrecision(
                        Rounding.TIES_TO_EVEN, exponent_bits, mantissa_bits
                    ),
                },
            )
            for element, dtype in MLIR_TYPES.items()
            for prefix, exponent_bits, mantissa_bits in (
                ("", 1, 0),
                ("stablehlo.", 5, 10),
                ("", 2**31 - 1, 2**31 - 1),
            )
        ],
        ({"exponent_bits": 8, "mantissa_bits": 23}, {"is_copy": True}),
        ({"exponent_bits": 8, "mantissa_bits": 22}, {"is_copy": False}),
        *[({"operand": operand}, {"output.shape": shape}) for operand, shape in SHAPES.items()],
    ],
    refusals=[
        ("exponent_bits", 0, "must be at least 1, got 0"),
        ("mantissa_bits", -1, "must be at least 0, got -1"),
        ("mantissa_bits", 2**31, "must be less than 2147483648, got 2147483648"),
        ("mantissa_bits", True, "must be an integer, got true"),
        ("operand", "tensor<2xi32>", "got i32; stablehlo: reduce_precision takes f16, bf16, f32, "),
        ("result", "tensor<2x3xf16>", "unknown field"),
    ],
    refused=[
        (lambda: ANY_REDUCE(0, 10), "exponent_bits", "must be at least 1, got 0"),
        (lambda: ANY_REDUCE(5, 10).prepare("int8", (2,)), "operand", "reduce_precision takes f16"),
    ],
    words={"stablehlo:reduce_precision:5:10": tr.StableHLOReducePrecision(5, 10)},
    wrong_words={
        "stablehlo:reduce_precision": "or stablehlo:reduce_precision:EXPONENT_BITS:MANTISSA_BITS",
        "stablehlo:reduce_precision:5": "or stablehlo:reduce_precision:EXPONENT_BITS:MANTISSA_BITS",
        "stablehlo:reduce_precision:5:x": "write stablehlo:OP",
        "stablehlo:reduce_precision:0:10": "must be at least 1, got 0",
    },
    spelling="stablehlo:reduce_precision:EXPONENT_BITS:MANTISSA_BITS",
    model=Model(
        "stablehlo_reduce_precision",
        "operand",
        "output",
        None,
        {"1": (datatypes(MLIR_TYPES.values()), "0-32")},
    ),
    # The specification's example, to binary16; its NaN has a payload of ones here, too.
    examples={
        "binary16": Example(
            (math.inf, -math.inf, math.nan, 2.0**-1074, 0.0, 65519, 65520, -(2.0**-15)),
            (math.inf, -math.inf, math.nan, 0.0, 0.0, 65504, math.inf, -0.0),
            ("float64",),
        ),
    },
)

CASES = {
    "stablehlo": ROUND,
    "stablehlo:convert": CONVERT,
    "stablehlo:reduce_precision": REDUCE,
    **LINEAR,
}
