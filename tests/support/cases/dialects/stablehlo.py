"""``stablehlo``: two operations, and operands as programs spell their types."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import FLOAT4, FLOATS, FNUZ, MLIR_TYPES, DialectCases, Model, by_mode
from tensor_round.contract.rounding import Rounding

OPS = {"round_nearest_even": Rounding.TIES_TO_EVEN, "round_nearest_afz": Rounding.TIES_TO_AWAY}
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
    "tensor<2xi32>": "got i32; stablehlo: round_nearest takes f16, bf16, f32, ",
    "tensor<2xf8E3M4>": "got f8E3M4; stablehlo: ",
    "tensor<2xf8E8M0FNU>": "got f8E8M0FNU: it is not closed under rounding",
    "tensor<2xF32>": NO_TYPE,
    f"tensor<2x{'f' * 5000}>": NO_TYPE,
    "tensor<2x!quant.uniform<i8:f32, 0.5>>": NO_TYPE,
    "tensor<2xf16, #stablehlo.bounds<2>>": NO_TYPE,
}
MODEL = Model(
    "stablehlo_round_nearest",
    "operand",
    "result",
    "op",
    {"1": (f"{FLOATS},{FNUZ},{FLOAT4}", "0-32")},
)
#: Called as by someone whom no type checker stops.
ANY: Any = tr.StableHLORound
#: float4_e2m1fn has no 2.5.
NOT_4_BITS = tuple(name for name in MLIR_TYPES.values() if name != "float4_e2m1fn")
#: The example that both of its operations have.
X = (-2.5, 0.4, 0.5, 0.6, 2.5)
RESULTS: dict[Any, tuple[float, ...]] = {
    "round_nearest_even": (-2, 0, 0, 1, 2),
    "round_nearest_afz": (-3, 0, 1, 1, 3),
}

CASES = DialectCases(
    example={"dialect": "stablehlo", "op": "round_nearest_afz", "operand": "tensor<2x3xf16>"},
    operator=(tr.StableHLORound("stablehlo.round_nearest_afz"), "float16"),
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
        ("op", "ceil", 'got "ceil"; stablehlo takes round_nearest_even, round_nearest_afz'),
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
        "stablehlo:floor": 'got "floor"; stablehlo takes round_nearest_even, round_nearest_afz',
    },
    spelling="stablehlo:OP (round_nearest_even, round_nearest_afz)",
    model=MODEL,
    examples=by_mode({op: (X, y) for op, y in RESULTS.items()}, NOT_4_BITS),
)
