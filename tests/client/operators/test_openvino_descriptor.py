"""The openvino dialect: Round-5, its fourteen types and two modes."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.rounding import Rounding

TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


@pytest.mark.parametrize(("element_type", "dtype"), TYPES.items(), ids=TYPES)
def test_each_element_type_is_taken_in_both_modes(element_type: str, dtype: str) -> None:
    for mode in ("half_to_even", "half_away_from_zero"):
        changes = {"input.element_type": element_type, "data.mode": mode}
        assert resolved(varied("openvino", changes)).input.dtype.name == dtype


DATA: dict[str, tuple[Any, Rounding]] = {
    "even": ({"mode": "half_to_even"}, Rounding.TIES_TO_EVEN),
    "away": ({"mode": "half_away_from_zero"}, Rounding.TIES_TO_AWAY),
    "no mode": ({}, Rounding.TIES_TO_EVEN),
    "null data": (None, Rounding.TIES_TO_EVEN),
    "no data": (ABSENT, Rounding.TIES_TO_EVEN),
}


@pytest.mark.parametrize(("data", "rounding"), DATA.values(), ids=DATA)
def test_the_mode_says_where_halves_go(data: Any, rounding: Rounding) -> None:
    assert resolved(varied("openvino", {"data": data})).rounding is rounding


@pytest.mark.parametrize(
    "shape", [[], [0], [3, 0], [2] * 9, [1] * 32], ids=["scalar", "0", "3x0", "rank 9", "rank 32"]
)
def test_any_rank_and_empty_tensors_are_fine(shape: list[int]) -> None:
    assert resolved(varied("openvino", {"input.shape": shape})).output.shape == tuple(shape)


def test_no_version_is_opset5() -> None:
    document = varied("openvino", {"version": ABSENT})
    assert resolved(document) == resolved(varied("openvino", {}))


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "upper case mode": (
        {"data.mode": "HALF_TO_EVEN"},
        {"data.mode": "openvino Round-5 takes half_to_even, half_away_from_zero, got "},
    ),
    "IEEE's name": ({"data.mode": "ties_to_even"}, {"data.mode": 'got "ties_to_even"'}),
    "mode as number": ({"data.mode": 0}, {"data.mode": "got 0"}),
    "a null mode": ({"data.mode": None}, {"data.mode": "got null"}),
    "a mode outside data": ({"mode": "half_to_even"}, {"mode": "unknown field"}),
    "an unknown attribute": ({"data.axis": 1}, {"data.axis": "unknown field"}),
    "data as text": ({"data": "half_to_even"}, {"data": "must be an object"}),
    "boolean, which the runtime takes": (
        {"input.element_type": "boolean"},
        {"input.element_type": "takes f16, bf16, f32, f64, f8e4m3, f8e5m2, i8, "},
    ),
    "string, likewise": ({"input.element_type": "string"}, {"input.element_type": "takes f16"}),
    **{
        f"{name}, less than a byte": (
            {"input.element_type": name},
            {"input.element_type": f"got {name}: its elements are storage codes of less than a "},
        )
        for name in ("i4", "u4", "u1", "u2", "u3", "u6", "nf4", "f4e2m1")
    },
    "powers of two": (
        {"input.element_type": "f8e8m0"},
        {"input.element_type": "got f8e8m0: it is not closed under rounding"},
    ),
    "a null version": ({"version": None}, {"version": "must be 'opset5', got null"}),
    "upper case, likewise": ({"input.element_type": "F32"}, {"input.element_type": 'got "F32"'}),
    "the IR's precision name": ({"input.element_type": "FP32"}, {"input.element_type": "takes"}),
    "no type": ({"input.element_type": ABSENT}, {"input.element_type": "is required"}),
    "another operation": ({"type": "Floor"}, {"type": "must be 'Round', got \"Floor\""}),
    "no operation": ({"type": ABSENT}, {"type": "is required"}),
    "an opset without Round": ({"version": "opset1"}, {"version": "must be 'opset5', got"}),
    "a version as number": ({"version": 5}, {"version": "must be 'opset5', got 5"}),
    "a dynamic dimension": ({"input.shape": [-1]}, {"input.shape.0": "must be at least 0, got -1"}),
    "33 dimensions": ({"input.shape": [1] * 33}, {"input.shape": "at most 32 dimensions, got 33"}),
    "strides": ({"input.strides": [3, 1]}, {"input.strides": "unknown field"}),
    "an output": ({"output": None}, {"output": "unknown field"}),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("openvino", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
