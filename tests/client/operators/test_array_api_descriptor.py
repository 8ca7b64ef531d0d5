"""The array_api dialect: four functions on the standard's real-valued types."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.rounding import Rounding

DTYPES = (
    *("float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
OPS = {
    "round": Rounding.TIES_TO_EVEN,
    "trunc": Rounding.TOWARD_ZERO,
    "ceil": Rounding.TOWARD_POSITIVE,
    "floor": Rounding.TOWARD_NEGATIVE,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_each_type_is_taken_by_each_function(dtype: str, op: str) -> None:
    call = resolved(varied("array_api", {"op": op, "x.dtype": dtype}))
    assert (call.input.dtype.name, call.rounding) == (dtype, OPS[op])


@pytest.mark.parametrize("shape", [[], [0], [3, 0], [2] * 9, [1] * 32], ids=str)
def test_any_rank_and_empty_arrays_are_fine(shape: list[int]) -> None:
    assert resolved(varied("array_api", {"x.shape": shape})).output.shape == tuple(shape)


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "complex numbers": (
        {"x.dtype": "complex128"},
        {"x.dtype": "got complex128: its parts are rounded one by one"},
    ),
    "a type that the standard has not": (
        {"x.dtype": "float16"},
        {"x.dtype": "array_api takes float32, float64, int8, "},
    ),
    "bool, which is not numeric": ({"x.dtype": "bool"}, {"x.dtype": "takes float32"}),
    "no type": ({"x.dtype": ABSENT}, {"x.dtype": "is required"}),
    "NumPy's name": (
        {"op": "rint"},
        {"op": 'array_api takes round, trunc, ceil, floor, got "rint'},
    ),
    "no function": ({"op": ABSENT}, {"op": "is required"}),
    "decimals": ({"decimals": 0}, {"decimals": "unknown field"}),
    "a negative size": ({"x.shape": [-1]}, {"x.shape.0": "must be at least 0, got -1"}),
    "33 dimensions": ({"x.shape": [1] * 33}, {"x.shape": "at most 32 dimensions, got 33"}),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("array_api", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
