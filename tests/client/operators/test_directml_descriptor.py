"""The directml dialect: spellings, feature levels, and how its call is laid out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.descriptors import ABSENT, Document, faults, resolved, varied
from tensor_round.conformance.reference import rounded
from tensor_round.operators import catalog
from tensor_round.rounding import Rounding

LEVELS = {
    "2_1": 0x2100, "3_0": 0x3000, "3_1": 0x3100, "4_0": 0x4000, "4_1": 0x4100, "5_0": 0x5000,
    "5_1": 0x5100, "5_2": 0x5200, "6_0": 0x6000, "6_1": 0x6100, "6_2": 0x6200, "6_3": 0x6300,
    "6_4": 0x6400,
}  # fmt: skip
MODES = [
    ("HALVES_TO_NEAREST_EVEN", 0, Rounding.TIES_TO_EVEN),
    ("TOWARD_ZERO", 1, Rounding.TOWARD_ZERO),
    ("TOWARD_INFINITY", 2, Rounding.TIES_TO_AWAY),
]


def test_no_mode_is_the_one_default() -> None:
    call = resolved(varied("directml", {"desc.RoundingMode": ABSENT}))
    assert call.rounding == catalog()["directml"]["default_rounding"] == "ties_to_even"


def of(sizes: list[int], changes: dict[str, Any] | None = None) -> Document:
    """The example with these Sizes for both tensors, and further changes."""
    both = {"desc.InputTensor.Sizes": sizes, "desc.OutputTensor.Sizes": sizes}
    return varied("directml", both | (changes or {}))


@pytest.mark.parametrize(("level", "number"), LEVELS.items(), ids=LEVELS)
def test_each_feature_level_takes_its_ranks(level: str, number: int) -> None:
    ranks = {4} if level == "2_1" else set(range(1, 9))
    wanted = "exactly 4" if level == "2_1" else "1 to 8"
    for rank in range(11):
        for spelling in (level, f"DML_FEATURE_LEVEL_{level}", number):
            document = of([1] * rank, {"feature_level": spelling})
            if rank in ranks:
                assert resolved(document).input.shape == (1,) * rank
            else:
                assert faults(document) == {
                    "desc.InputTensor.Sizes": f"directml {level}: ELEMENT_WISE_ROUND takes "
                    f"{wanted} dimensions, got {rank}"
                }


@pytest.mark.parametrize("level", ["1_0", "2_0", "DML_FEATURE_LEVEL_2_0", 0x1000, 0x2000])
def test_levels_without_round_say_which_brought_it(level: str | int) -> None:
    (message,) = faults(varied("directml", {"feature_level": level})).values()

    assert "ELEMENT_WISE_ROUND was introduced in feature level 2_1" in message


@pytest.mark.parametrize(("name", "number", "rounding"), MODES)
def test_each_mode_in_every_spelling(name: str, number: int, rounding: Rounding) -> None:
    for spelling in (name, f"DML_ROUNDING_MODE_{name}", number):
        assert resolved(varied("directml", {"desc.RoundingMode": spelling})).rounding is rounding


@pytest.mark.parametrize(("name", "number", "rounding"), MODES)
def test_modes_give_the_values_of_directmls_documentation(
    name: str, number: int, rounding: Rounding
) -> None:
    table = {
        0: [-2, -2, -2, -1, 0, 1, 2, 2, 2],
        1: [-2, -1, -1, -1, 0, 1, 1, 1, 2],
        2: [-3, -2, -2, -1, 0, 1, 2, 2, 3],
    }
    x = np.array([-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5], np.float32)
    call = resolved(of([9], {"desc.RoundingMode": name}))

    answer = rounded(x.view(np.uint32), "float32", call.rounding).view(np.float32)

    assert answer.tolist() == table[number]


@pytest.mark.parametrize(
    ("name", "number", "dtype"), [("FLOAT32", 1, "float32"), ("FLOAT16", 2, "float16")]
)
def test_both_data_types_in_every_spelling(name: str, number: int, dtype: str) -> None:
    for spelling in (name, f"DML_TENSOR_DATA_TYPE_{name}", number):
        changes = {f"desc.{side}Tensor.DataType": spelling for side in ("Input", "Output")}
        assert resolved(varied("directml", changes)).input.dtype.name == dtype


@pytest.mark.parametrize("operator", ["ELEMENT_WISE_ROUND", "DML_OPERATOR_ELEMENT_WISE_ROUND", 99])
def test_the_operator_in_every_spelling(operator: str | int) -> None:
    assert resolved(varied("directml", {"type": operator})).is_in_place


def test_spellings_may_be_mixed_between_input_and_output() -> None:
    changes = {"desc.InputTensor.DataType": "DML_TENSOR_DATA_TYPE_FLOAT32"}

    assert resolved(varied("directml", changes | {"desc.OutputTensor.DataType": 1})).is_in_place


# The example documents of DxDispatch's guide and parser tests, with a Round around them.
FULL: Document = {
    "Type": "DML_TENSOR_TYPE_BUFFER",
    "Desc": {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
        "Flags": "DML_TENSOR_FLAG_NONE",
        "DimensionCount": 4,
        "Sizes": [1, 1, 2, 3],
        "Strides": [6, 6, 3, 1],
        "TotalTensorSizeInBytes": 24,
        "GuaranteedBaseOffsetAlignment": 0,
    },
}
SHORT = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}
FLAT = {"Type": "BUFFER", **FULL["Desc"]}


@pytest.mark.parametrize("tensor", [FULL, SHORT, FLAT], ids=["full", "short", "flat"])
def test_dxdispatchs_forms_of_a_tensor_mean_the_same(tensor: Document) -> None:
    changes = {"feature_level": "2_1", "desc.InputTensor": tensor, "desc.OutputTensor": SHORT}

    call = resolved(varied("directml", changes))

    assert call.input == call.output
    assert call.input.byte_length == 24
    assert call.is_in_place


def test_an_input_may_be_owned_by_directml() -> None:
    for spelling in ("OWNED_BY_DML", "DML_TENSOR_FLAG_OWNED_BY_DML", 1):
        assert resolved(varied("directml", {"desc.InputTensor.Flags": spelling})).is_in_place


# DataType, Sizes, Strides, TotalTensorSizeInBytes -> length, the shortest payload
LENGTHS: dict[str, tuple[str, list[int], list[int] | None, int | None, int, int]] = {
    "three halves": ("FLOAT16", [3], None, None, 8, 6),
    "two halves": ("FLOAT16", [2], None, None, 4, 4),
    "one half": ("FLOAT16", [1], None, None, 4, 2),
    "three halves with length": ("FLOAT16", [3], None, 8, 8, 8),
    "three halves with room": ("FLOAT16", [3], None, 9, 9, 9),
    "floats need no rounding": ("FLOAT32", [3], None, None, 12, 12),
    "rows apart": ("FLOAT32", [2, 3], [5, 1], None, 32, 32),
    "rows of halves apart": ("FLOAT16", [2, 3], [4, 1], None, 16, 14),
    "channels last": ("FLOAT32", [1, 3, 2, 2], [12, 1, 6, 3], None, 48, 48),
    "a broadcast": ("FLOAT16", [5, 3], [0, 1], None, 8, 6),
    "all one element": ("FLOAT32", [2**16, 2**15], [0, 0], None, 4, 4),
    "2^32-1 elements": ("FLOAT16", [2**32 - 1], None, None, 2**33, 2**33 - 2),
    "beyond 32 bits, where the C helper wraps": ("FLOAT32", [2**31], None, None, 2**33, 2**33),
    "a step of 2^32-1": ("FLOAT32", [3], [2**32 - 1], None, 4 * (2**33 - 1), 4 * (2**33 - 1)),
}


@pytest.mark.parametrize(
    ("dtype", "sizes", "strides", "total", "length", "shortest"), LENGTHS.values(), ids=LENGTHS
)
def test_lengths_are_rounded_up_to_4(
    dtype: str,
    sizes: list[int],
    strides: list[int] | None,
    total: int | None,
    length: int,
    shortest: int,
) -> None:
    tensor = {"DataType": dtype, "Sizes": sizes}
    laid = tensor | {"Strides": strides, "TotalTensorSizeInBytes": total}

    call = resolved(varied("directml", {"desc.InputTensor": laid, "desc.OutputTensor": tensor}))

    assert (call.input.byte_length, call.shortest_input) == (length, shortest)
    elements = call.output.element_count * call.output.dtype.itemsize
    assert call.output.byte_length == -(-elements // 4) * 4


def test_the_output_is_laid_out_as_its_strides_and_length_say() -> None:
    channels_last = {
        "DataType": "FLOAT16", "Sizes": [1, 3, 2, 2], "Strides": [12, 1, 6, 3],
        "TotalTensorSizeInBytes": 100,
    }  # fmt: skip
    tensor = {"DataType": "FLOAT16", "Sizes": [1, 3, 2, 2]}

    call = resolved(
        varied("directml", {"desc.InputTensor": tensor, "desc.OutputTensor": channels_last})
    )

    assert call.output.strides == (12, 1, 6, 3)
    assert call.output.byte_length == 100
    assert not call.is_in_place


@pytest.mark.parametrize("alignment", [0, 4, 8, 16, 256, 2**31])
def test_an_alignment_is_0_or_a_power_of_two(alignment: int) -> None:
    changes = {"desc.InputTensor.GuaranteedBaseOffsetAlignment": alignment}

    assert resolved(varied("directml", changes)).is_in_place


@pytest.mark.parametrize("field", ["Strides", "DimensionCount", "TotalTensorSizeInBytes"])
def test_null_stands_for_what_directml_works_out(field: str) -> None:
    assert resolved(varied("directml", {f"desc.InputTensor.{field}": None})).is_in_place


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
