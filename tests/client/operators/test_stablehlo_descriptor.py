"""The stablehlo dialect: two operations, and operands as programs spell their types."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.rounding import Rounding

TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2",
}  # fmt: skip
OPS = {
    "round_nearest_even": Rounding.TIES_TO_EVEN,
    "round_nearest_afz": Rounding.TIES_TO_AWAY,
    "stablehlo.round_nearest_even": Rounding.TIES_TO_EVEN,
    "stablehlo.round_nearest_afz": Rounding.TIES_TO_AWAY,
}


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("op", OPS)
def test_each_type_is_taken_by_each_operation(element: str, op: str) -> None:
    call = resolved(varied("stablehlo", {"op": op, "operand": f"tensor<5x{element}>"}))
    assert (call.input.dtype.name, call.rounding) == (TYPES[element], OPS[op])


SHAPES: dict[str, tuple[int, ...]] = {
    "tensor<f32>": (),
    "tensor<0xf32>": (0,),
    "tensor<3x0x2xf32>": (3, 0, 2),
    f"tensor<{'1x' * 32}f32>": (1,) * 32,
    f"tensor<{2**63 - 1}xf8E5M2>": (2**63 - 1,),
}


@pytest.mark.parametrize("operand", SHAPES)
def test_a_type_says_the_shape(operand: str) -> None:
    assert resolved(varied("stablehlo", {"operand": operand})).output.shape == SHAPES[operand]


NO_TYPE = "takes a tensor type such as tensor<2x3xf16>, got "
OPERANDS: dict[str, Any] = {
    "": NO_TYPE,
    "f16": NO_TYPE,
    "tensor<>": NO_TYPE,
    "tensor<2x3>": NO_TYPE,
    "tensor<2x3xf16": NO_TYPE,
    "tensor<2x3xf16> ": NO_TYPE,
    "tensor<2,3xf16>": NO_TYPE,
    "tensor<-2xf16>": NO_TYPE,
    "tensor<02xf16>": NO_TYPE,
    "tensor<\u0662xf16>": NO_TYPE,
    "tensor<*xf16>": NO_TYPE,
    "tensor<?x3xf16>": "takes dimensions with sizes here, got",
    f"tensor<{2**63}xf16>": "takes sizes of 0 to 2^63-1, got",
    f"tensor<{'9' * 5000}xf16>": "takes sizes of 0 to 2^63-1, got",
    f"tensor<{'1x' * 33}f16>": "takes at most 32 dimensions here, got 33",
    "tensor<2xi32>": "takes f16, bf16, f32, f64, f8E4M3FN, f8E5M2, got i32",
    "tensor<2xf8E4M3>": "got f8E4M3",
    "tensor<2xf4E2M1FN>": "got f4E2M1FN",
    "tensor<2xF32>": NO_TYPE,
    f"tensor<2x{'f' * 5000}>": NO_TYPE,
    "tensor<2x!quant.uniform<i8:f32, 0.5>>": NO_TYPE,
    "tensor<2xf16, #stablehlo.bounds<2>>": NO_TYPE,
}


@pytest.mark.parametrize("operand", OPERANDS, ids=lambda text: text[:40])
def test_what_is_no_operand_is_refused_with_why(operand: str) -> None:
    found = faults(varied("stablehlo", {"operand": operand}))
    assert found.keys() == {"operand"}
    assert OPERANDS[operand] in found["operand"]
    assert len(found["operand"]) < 300


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "another operation": (
        {"op": "ceil"},
        {"op": 'stablehlo takes round_nearest_even, round_nearest_afz, got "ceil"'},
    ),
    "no operation": ({"op": ABSENT}, {"op": "is required"}),
    "no operand": ({"operand": ABSENT}, {"operand": "is required"}),
    "a tensor as an object": ({"operand": {"shape": [2]}}, {"operand": "must be a string"}),
    "a result": ({"result": "tensor<2x3xf16>"}, {"result": "unknown field"}),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("stablehlo", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
