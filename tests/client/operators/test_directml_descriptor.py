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
