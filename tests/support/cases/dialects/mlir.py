"""``mlir``: five operations of MLIR's ``math`` dialect on its float types."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    FLOAT4,
    FLOATS,
    FNUZ,
    MLIR_TYPES,
    DialectCases,
    Model,
    by_mode,
    shapes,
)
from tensor_round.contract.rounding import Rounding

OPS = {
    "math.roundeven": Rounding.TIES_TO_EVEN,
    "math.round": Rounding.TIES_TO_AWAY,
    "math.trunc": Rounding.TOWARD_ZERO,
    "math.ceil": Rounding.TOWARD_POSITIVE,
    "math.floor": Rounding.TOWARD_NEGATIVE,
}
MODEL = Model("mlir_math", "operand", "result", "op", {"1": (f"{FLOATS},{FNUZ},{FLOAT4}", "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.MLIRRound
#: The operands and results of MLIR's test-expand-math-approx.mlir; it has none for the other three.
FAR = (
    (3.8, -3.8, -4.2, -495, 495, 8.5, -8.5, -0.4, -0.0, 0.0, 0.5),
    (4, -4, -4, -495, 495, 9, -9, -0.0, -0.0, 0.0, 1),
)
QUARTERS = tuple(n / 4 for n in range(1, 16))
EVEN = (0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4)
NUMBERS: dict[Any, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "math.roundeven": (
        (*QUARTERS, *(-x for x in QUARTERS), -0.0, 0.0),
        (*EVEN, *(-float(y) for y in EVEN), -0.0, 0.0),
    ),
    "math.trunc": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-3, -2, -0.0, 0, 1, 7)),
    "math.ceil": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-3, -2, -0.0, 1, 2, 7)),
    "math.floor": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-4, -3, -1, 0, 1, 7)),
}

CASES = DialectCases(
    example={"dialect": "mlir", "op": "math.round", "element_type": "f32", "shape": [2, 3]},
    operator=(tr.MLIRRound("math.round"), "<f4"),
    dtypes=MLIR_TYPES,
    modes=OPS,
    dtype_at=("element_type",),
    mode_at="op",
    accepted=shapes("shape"),
    refusals=[
        ("element_type", "i32", "; mlir: math takes f16, bf16, f32, f64, f8E4M3FN, f8E5M2"),
        ("element_type", "float32", 'got "float32"'),
        ("element_type", "f8E8M0FNU", "got f8E8M0FNU: it is not closed under rounding"),
        ("op", "round", "takes math.roundeven, math.round, math.trunc, math.ceil, math.floor"),
        ("shape[0]", ["?"], 'must be an integer, got "?"'),
        ("shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[
        (lambda: ANY("round"), "op", "math.roundeven, math.round"),
        (
            lambda: ANY().prepare("int32", (2,)),
            "element_type",
            'got "int32"; mlir: math takes f16, ',
        ),
    ],
    words={
        "mlir:math.round": tr.MLIRRound("math.round"),
        "mlir:math.roundeven": tr.MLIRRound(),
    },
    wrong_words={
        "mlir": "write mlir:OP",
        "mlir:round": 'got "round"; mlir: math takes math.roundeven, ',
        "mlir:math.round:f32": "write mlir:OP",
    },
    spelling="mlir:OP (math.roundeven, math.round, math.trunc, math.ceil, math.floor)",
    model=MODEL,
    examples={
        **by_mode({"math.round": FAR}, ("float16", "float32", "float64")),
        **by_mode(NUMBERS, ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")),
    },
)
