"""Rules of the directml dialect: what breaks one is refused, with where and why."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, varied

IN, OUT = "desc.InputTensor", "desc.OutputTensor"
REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an unknown level": (
        {"feature_level": "7_0"},
        {"feature_level": "a feature level takes 2_1, 3_0, 3_1, 4_0, "},
    ),
    "a level as text of a number": ({"feature_level": "12288"}, {"feature_level": "takes 2_1"}),
    "a level with a dot": ({"feature_level": "3.0"}, {"feature_level": "takes 2_1"}),
    "an unknown integer": ({"feature_level": 3}, {"feature_level": "got 3"}),
    "no level": ({"feature_level": ABSENT}, {"feature_level": "is required"}),
    "CEIL": (
        {"type": "DML_OPERATOR_ELEMENT_WISE_CEIL"},
        {"type": "takes ELEMENT_WISE_ROUND, got"},
    ),
    "another operator's integer": ({"type": 7}, {"type": "got 7"}),
    "a doubled prefix": (
        {"type": "DML_OPERATOR_DML_OPERATOR_ELEMENT_WISE_ROUND"},
        {"type": "takes ELEMENT_WISE_ROUND"},
    ),
    "an unknown mode": (
        {"desc.RoundingMode": "ties_to_even"},
        {"desc.RoundingMode": "takes HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO, got"},
    ),
    "mode 3": ({"desc.RoundingMode": 3}, {"desc.RoundingMode": "got 3"}),
    "mode true, which equals 1": ({"desc.RoundingMode": True}, {"desc.RoundingMode": "got true"}),
    "mode 1.0": ({"desc.RoundingMode": 1.0}, {"desc.RoundingMode": "got 1.0"}),
    "mode as text": ({"desc.RoundingMode": "1"}, {"desc.RoundingMode": 'got "1"'}),
    "a null mode": ({"desc.RoundingMode": None}, {"desc.RoundingMode": "got null"}),
    "integers": (
        {f"{IN}.DataType": "INT32", f"{OUT}.DataType": "INT32"},
        {f"{IN}.DataType": "ROUND takes FLOAT32, FLOAT16, got", f"{OUT}.DataType": "takes FLOAT32"},
    ),
    "doubles": ({f"{IN}.DataType": "FLOAT64"}, {f"{IN}.DataType": "takes FLOAT32, FLOAT16"}),
    "unknown, which DirectML has": ({f"{IN}.DataType": 0}, {f"{IN}.DataType": "got 0"}),
    "no output": ({OUT: ABSENT}, {OUT: "is required"}),
    "a null output": ({OUT: None}, {OUT: "must be an object, got null"}),
    "no sizes": ({f"{IN}.Sizes": ABSENT}, {f"{IN}.Sizes": "is required"}),
    "an empty tensor": ({f"{IN}.Sizes": [2, 0]}, {f"{IN}.Sizes.1": "must be at least 1, got 0"}),
    "a size beyond 32 bits": (
        {f"{IN}.Sizes": [2**32]},
        {f"{IN}.Sizes.0": "must be at most 4294967295, got 4294967296"},
    ),
    "rank 3 in 2_1": (
        {"feature_level": "2_1", f"{IN}.Sizes": [1, 2, 3], f"{OUT}.Sizes": [1, 2, 3]},
        {f"{IN}.Sizes": "directml 2_1: ELEMENT_WISE_ROUND takes exactly 4 dimensions, got 3"},
    ),
    "2^32 elements": (
        {f"{IN}.Sizes": [2**16, 2**16], f"{OUT}.Sizes": [2**16, 2**16]},
        {side + ".Sizes": "at most 2^32-1 elements, got 4294967296" for side in (IN, OUT)},
    ),
    "2^32 elements by broadcast": (
        {
            f"{IN}.Sizes": [2**16, 2**16],
            f"{IN}.Strides": [0, 0],
            f"{OUT}.Sizes": [2**16, 2**16],
        },
        {side + ".Sizes": "at most 2^32-1 elements" for side in (IN, OUT)},
    ),
    "another dimension count": (
        {f"{IN}.DimensionCount": 3},
        {f"{IN}.DimensionCount": "must be 2, as Sizes has, got 3"},
    ),
    "a stride short": ({f"{IN}.Strides": [1]}, {f"{IN}.Strides": "one entry per dimension, 2"}),
    "no strides at all": ({f"{IN}.Strides": []}, {f"{IN}.Strides": "one entry per dimension, 2"}),
    "a negative stride": ({f"{IN}.Strides": [3, -1]}, {f"{IN}.Strides.1": "at least 0"}),
    "a stride beyond 32 bits": (
        {f"{IN}.Strides": [2**32, 1]},
        {f"{IN}.Strides.0": "at most 4294967295"},
    ),
    "a length too short": (
        {f"{IN}.TotalTensorSizeInBytes": 23},
        {f"{IN}.TotalTensorSizeInBytes": "must be at least 24, the end of the last element"},
    ),
    "a length not rounded up": (
        {
            side + field: value
            for side in (IN, OUT)
            for field, value in ((".DataType", 2), (".Sizes", [3]))
        }
        | {f"{IN}.TotalTensorSizeInBytes": 6},
        {f"{IN}.TotalTensorSizeInBytes": "must be at least 8, the end of the last element rounded"},
    ),
    "a length of 0": ({f"{IN}.TotalTensorSizeInBytes": 0}, {f"{IN}.TotalTensorSizeInBytes": "24"}),
    "a length beyond 64 bits": (
        {f"{IN}.TotalTensorSizeInBytes": 2**64},
        {f"{IN}.TotalTensorSizeInBytes": "at most 18446744073709551615"},
    ),
    "an output too short": (
        {f"{OUT}.TotalTensorSizeInBytes": 20},
        {f"{OUT}.TotalTensorSizeInBytes": "must be at least 24"},
    ),
    "an alignment of 12": (
        {f"{IN}.GuaranteedBaseOffsetAlignment": 12},
        {f"{IN}.GuaranteedBaseOffsetAlignment": "0 or a power of two of at least 4, "},
    ),
    "an alignment below the element": (
        {f"{IN}.GuaranteedBaseOffsetAlignment": 2},
        {f"{IN}.GuaranteedBaseOffsetAlignment": "at least 4"},
    ),
    "an output of another type": (
        {f"{OUT}.DataType": "FLOAT16"},
        {f"{OUT}.DataType": "directml: must equal the InputTensor's DataType"},
    ),
    "an output of other sizes": (
        {f"{OUT}.Sizes": [3, 2]},
        {f"{OUT}.Sizes": "directml: must equal the InputTensor's Sizes"},
    ),
    "an output of other rank": (
        {f"{OUT}.Sizes": [6]},
        {f"{OUT}.DimensionCount": "must equal the InputTensor's DimensionCount, 2, got 1"},
    ),
    "a broadcast output": ({f"{OUT}.Strides": [0, 1]}, {f"{OUT}.Strides": "must not overlap"}),
    "an overlapping output": ({f"{OUT}.Strides": [2, 1]}, {f"{OUT}.Strides": "must not overlap"}),
    "an output owned by DirectML": (
        {f"{OUT}.Flags": "OWNED_BY_DML"},
        {f"{OUT}.Flags": "directml: OWNED_BY_DML is for inputs only"},
    ),
    "unknown flags": ({f"{IN}.Flags": 2}, {f"{IN}.Flags": "takes NONE, OWNED_BY_DML, got 2"}),
    "flags in a list": ({f"{IN}.Flags": ["NONE"]}, {f"{IN}.Flags": "got an array"}),
    "another tensor type": ({f"{IN}.Type": "INVALID"}, {f"{IN}.Type": "takes BUFFER, got"}),
    "tensor type 0": ({f"{IN}.Type": 0}, {f"{IN}.Type": "takes BUFFER, got 0"}),
    "an unknown field": ({f"{IN}.sizes": [2, 3]}, {f"{IN}.sizes": "unknown field"}),
    "an unknown field of desc": ({"desc.ScaleBias": None}, {"desc.ScaleBias": "unknown field"}),
    "DxDispatch's compile type": (
        {"dmlCompileType": "DmlCompileOp"},
        {"dmlCompileType": "unknown field"},
    ),
    "the struct's own names": ({"Desc": {}}, {"Desc": "unknown field"}),
    "both forms at once": (
        {IN: {"Type": 1, "Sizes": [2, 3], "Desc": {"DataType": 1, "Sizes": [2, 3]}}},
        {f"{IN}.Sizes": "unknown field"},
    ),
    "a Type within Desc": (
        {IN: {"Desc": {"Type": 1, "DataType": 1, "Sizes": [2, 3]}}},
        {f"{IN}.Desc.Type": "unknown field"},
    ),
    "faults within Desc": (
        {IN: {"Desc": {"DataType": 1, "Sizes": [2, 3], "Strides": [1]}}},
        {f"{IN}.Desc.Strides": "one entry per dimension"},
    ),
    "a null Desc": ({IN: {"Desc": None}}, {f"{IN}.Desc": "must be an object, got null"}),
    "a tensor as list": ({IN: [2, 3]}, {IN: "must be an object, got an array"}),
    "rules broken in many places": (
        {
            "feature_level": "2_1",
            f"{IN}.DimensionCount": 9,
            f"{IN}.GuaranteedBaseOffsetAlignment": 3,
            f"{OUT}.Flags": 1,
            f"{OUT}.Strides": [1],
        },
        {
            f"{IN}.Sizes": "exactly 4 dimensions, got 2",
            f"{IN}.DimensionCount": "must be 2",
            f"{IN}.GuaranteedBaseOffsetAlignment": "power of two",
            f"{OUT}.Flags": "for inputs only",
            f"{OUT}.Strides": "one entry per dimension",
        },
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("directml", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
