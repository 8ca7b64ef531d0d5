"""The webnn dialect: roundEven, two types, and dimensions of at least 1."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.rounding import Rounding


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_both_types_go_to_even(dtype: str) -> None:
    call = resolved(varied("webnn", {"input.dataType": dtype}))
    assert (call.input.dtype.name, call.rounding) == (dtype, Rounding.TIES_TO_EVEN)


@pytest.mark.parametrize(
    "shape", [[], [1], [2] * 6, [1] * 32, [2**31 - 1]], ids=["0", "1", "6", "32", "the longest"]
)
def test_any_rank_is_taken(shape: list[int]) -> None:
    assert resolved(varied("webnn", {"input.shape": shape})).output.shape == tuple(shape)


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "another type of MLOperandDataType": (
        {"input.dataType": "int32"},
        {"input.dataType": 'webnn: roundEven takes float32, float16, got "int32"'},
    ),
    "a type that WebNN has not": ({"input.dataType": "bfloat16"}, {"input.dataType": "takes"}),
    "no type": ({"input.dataType": ABSENT}, {"input.dataType": "is required"}),
    "the older name of shape": (
        {"input.shape": ABSENT, "input.dimensions": [2]},
        {"input.shape": "is required", "input.dimensions": "unknown field"},
    ),
    "an empty tensor": ({"input.shape": [2, 0]}, {"input.shape.1": "must be at least 1, got 0"}),
    "beyond long": (
        {"input.shape": [2**31]},
        {"input.shape.0": "must be at most 2147483647, got 2147483648"},
    ),
    "33 dimensions": ({"input.shape": [1] * 33}, {"input.shape": "at most 32 dimensions, got 33"}),
    "another operator": ({"op": "ceil"}, {"op": "must be 'roundEven', got \"ceil\""}),
    "no operator": ({"op": ABSENT}, {"op": "is required"}),
    "a direction": ({"rounding": "ties_to_even"}, {"rounding": "unknown field"}),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("webnn", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
