"""The ieee754 dialect: every dtype, direction and layout, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.dtypes import DTYPES
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

F32 = {"dtype": "float32", "shape": [2, 3]}


def test_the_example_is_a_packed_call_in_place() -> None:
    call = resolved(varied("ieee754", {}))

    assert call.rounding is Rounding.TIES_TO_EVEN
    assert call.input.describe() == {
        "dtype": "float32",
        "shape": [2, 3],
        "strides": [3, 1],
        "byte_length": 24,
    }
    assert call.output == call.input
    assert call.shortest_input == 24
    assert call.is_in_place


@pytest.mark.parametrize("rounding", list(Rounding))
def test_each_direction_is_spoken_by_its_ieee_name(rounding: Rounding) -> None:
    assert resolved(varied("ieee754", {"rounding": rounding.value})).rounding is rounding


def test_no_rounding_means_ties_to_even() -> None:
    assert resolved(varied("ieee754", {"rounding": ABSENT})).rounding is Rounding.TIES_TO_EVEN


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_each_dtype_is_taken(dtype: Any) -> None:
    call = resolved(varied("ieee754", {"input.dtype": dtype.name}))

    assert call.input.dtype is dtype
    assert call.input.byte_length == 6 * dtype.itemsize


# input fields over those of the example, the length they come to
LAYOUTS: dict[str, tuple[dict[str, Any], int]] = {
    "a scalar": ({"shape": []}, 4),
    "32 dimensions": ({"shape": [1] * 32}, 4),
    "an empty tensor": ({"shape": [2, 0, 3]}, 0),
    "an empty tensor with padding": ({"shape": [0], "byte_length": 8}, 8),
    "an empty tensor, its strides of no account": ({"shape": [0, 2], "strides": [0, 0]}, 0),
    "columns first": ({"strides": [1, 2]}, 24),
    "rows apart": ({"strides": [5, 1]}, 32),
    "a broadcast row": ({"strides": [0, 1]}, 12),
    "one element for all": ({"strides": [0, 0]}, 4),
    "overlapping windows": ({"strides": [1, 1]}, 16),
    "trailing padding": ({"byte_length": 25}, 25),
    "fields absent": ({"strides": ABSENT, "byte_length": ABSENT}, 24),
}


@pytest.mark.parametrize(("fields", "length"), LAYOUTS.values(), ids=LAYOUTS)
def test_an_input_may_lie_anyhow(fields: dict[str, Any], length: int) -> None:
    call = resolved(varied("ieee754", {f"input.{name}": fields[name] for name in fields}))

    assert call.input.byte_length == call.shortest_input == length
    assert call.output == Layout.of(call.input.dtype, call.input.shape), "packed C order"


def test_sizes_beyond_any_machine_are_counted_exactly() -> None:
    call = resolved(varied("ieee754", {"input.shape": [2**32, 2**32]}))

    assert call.input.byte_length == 2**66


def test_the_output_may_lie_in_its_own_way() -> None:
    output = {**F32, "strides": [1, 4], "byte_length": 50}

    call = resolved(varied("ieee754", {"output": output}))

    assert call.output.describe() == {**output, "strides": [1, 4]}
    assert call.input.strides == (3, 1)
    assert not call.is_in_place


# changes to the example, and a part of the message at each path
REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an unknown rounding": (
        {"rounding": "half_to_even"},
        {"rounding": "takes ties_to_even, ties_to_away, toward_zero, toward_positive, "},
    ),
    "a rounding of another type": ({"rounding": 0}, {"rounding": "got 0"}),
    "a null rounding": ({"rounding": None}, {"rounding": "got null"}),
    "an unknown dtype": (
        {"input.dtype": "f32"},
        {"input.dtype": "takes float16, bfloat16, float32, "},
    ),
    "upper case": ({"input.dtype": "FLOAT32"}, {"input.dtype": 'got "FLOAT32"'}),
    "no dtype": ({"input.dtype": ABSENT}, {"input.dtype": "is required"}),
    "no shape": ({"input.shape": ABSENT}, {"input.shape": "is required"}),
    "no input": ({"input": ABSENT}, {"input": "is required"}),
    "a null input": ({"input": None}, {"input": "must be an object, got null"}),
    "a null shape": ({"input.shape": None}, {"input.shape": "must be an array, got null"}),
    "a bare size": ({"input.shape": 6}, {"input.shape": "must be an array, got 6"}),
    "a negative size": (
        {"input.shape": [2, -1]},
        {"input.shape.1": "must be at least 0, got -1"},
    ),
    "a size as text": ({"input.shape": ["2"]}, {"input.shape.0": 'must be an integer, got "2"'}),
    "a size as float": ({"input.shape": [2.0]}, {"input.shape.0": "must be an integer, got 2.0"}),
    "a size as bool": ({"input.shape": [True]}, {"input.shape.0": "must be an integer, got true"}),
    "a size of 2^63": ({"input.shape": [2**63]}, {"input.shape.0": "must be less than"}),
    "a size of 1000 bits": (
        {"input.shape": [2**999]},
        {"input.shape.0": "got an integer of 1000 bits"},
    ),
    "33 dimensions": (
        {"input.shape": [1] * 33},
        {"input.shape": "must have at most 32 dimensions, got 33"},
    ),
    "a stride short": (
        {"input.strides": [1]},
        {"input.strides": "must have one entry per dimension, 2, got 1"},
    ),
    "a stride too many": (
        {"input.strides": [3, 1, 1]},
        {"input.strides": "must have one entry per dimension, 2, got 3"},
    ),
    "a negative stride": (
        {"input.strides": [3, -1]},
        {"input.strides.1": "must be at least 0, got -1"},
    ),
    "a length a byte short": (
        {"input.byte_length": 23},
        {"input.byte_length": "must be at least 24, the end of the last element, got 23"},
    ),
    "a length short of the strides": (
        {"input.strides": [5, 1], "input.byte_length": 31},
        {"input.byte_length": "must be at least 32"},
    ),
    "a length as text": ({"input.byte_length": "24"}, {"input.byte_length": "an integer"}),
    "an unknown field": ({"mode": 1}, {"mode": "unknown field"}),
    "an unknown field of a tensor": (
        {"input.byteLength": 24},
        {"input.byteLength": "unknown field"},
    ),
    "another dialect's field": ({"opset_version": 22}, {"opset_version": "unknown field"}),
    "an output of another dtype": (
        {"output": {**F32, "dtype": "float16"}},
        {"output.dtype": "ieee754: must equal the input's dtype"},
    ),
    "an output of another shape": (
        {"output": {**F32, "shape": [3, 2]}},
        {"output.shape": "ieee754: must equal the input's shape"},
    ),
    "an output without shape": (
        {"output": {"dtype": "float32"}},
        {"output.shape": "is required"},
    ),
    "a broadcast output": (
        {"output": {**F32, "strides": [0, 1]}},
        {"output.strides": "must not overlap"},
    ),
    "an output that overlaps": (
        {"output": {**F32, "strides": [2, 1]}},
        {"output.strides": "each stride must exceed the sum of (size-1)*stride"},
    ),
    "an output free of overlap in truth, but not provably": (
        {"output": {**F32, "strides": [3, 2]}},
        {"output.strides": "must not overlap"},
    ),
    "an output too short": (
        {"output": {**F32, "byte_length": 20}},
        {"output.byte_length": "must be at least 24"},
    ),
    "faults in many places": (
        {"rounding": "up", "input.shape": [-1, "x"], "output": {"dtype": "f4"}, "extra": {}},
        {
            "rounding": "takes",
            "input.shape.0": "at least 0",
            "input.shape.1": "an integer",
            "output.dtype": "takes",
            "output.shape": "is required",
            "extra": "unknown field",
        },
    ),
    "rules broken in many places": (
        {
            "input.byte_length": 1,
            "output": {"dtype": "int8", "shape": [3], "strides": [1, 1]},
        },
        {
            "input.byte_length": "at least 24",
            "output.dtype": "must equal",
            "output.shape": "must equal",
            "output.strides": "one entry per dimension, 1, got 2",
        },
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("ieee754", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]


def test_strides_of_size_1_dimensions_never_overlap() -> None:
    output = {"dtype": "float32", "shape": [1, 3], "strides": [0, 1]}

    call = resolved(varied("ieee754", {"input.shape": [1, 3], "output": output}))

    assert call.is_in_place, "a stride that steps nowhere changes nothing"
