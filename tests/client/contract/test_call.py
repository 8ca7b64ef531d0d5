"""When a call's results can overwrite its input."""

from __future__ import annotations

from typing import Any

import pytest

from tensor_round.contract.call import RoundCall, wrong_size
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import PayloadSizeMismatch, TensorTooLarge
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

F16 = BY_NAME["float16"]


def call(source: dict[str, Any], target: dict[str, Any]) -> RoundCall:
    input, output = Layout.of(F16, [2, 3], **source), Layout.of(F16, [2, 3], **target)
    return RoundCall(Rounding.TIES_TO_EVEN, input, output, input.byte_length)


# the input's layout, the output's, whether in place, bytes of memory
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], bool, int]] = {
    "packed": ({}, {}, True, 12),
    "both padded behind": ({"byte_length": 16}, {"byte_length": 16}, True, 16),
    "the input padded behind": ({"byte_length": 16}, {}, False, 16 + 12),
    "the output padded behind": ({}, {"byte_length": 16}, False, 12 + 16),
    "both columns first": ({"strides": [1, 2]}, {"strides": [1, 2]}, True, 12),
    "transposed": ({"strides": [1, 2]}, {}, False, 12 + 12),
    "both with gaps": ({"strides": [4, 1]}, {"strides": [4, 1]}, False, 14 + 14),
    "a broadcast": ({"strides": [0, 1]}, {}, False, 6 + 12),
}


@pytest.mark.parametrize(("source", "target", "expected", "nbytes"), CASES.values(), ids=CASES)
def test_one_buffer_is_enough_where_both_lie_the_same_without_gaps(
    source: dict[str, Any], target: dict[str, Any], expected: bool, nbytes: int
) -> None:
    assert call(source, target).is_in_place is expected
    assert call(source, target).nbytes == nbytes


def test_a_packed_output_forgets_the_inputs_strides_and_padding() -> None:
    source = Layout.of(F16, [2, 3], [5, 1], 100)

    packed = RoundCall.packed_output(Rounding.TOWARD_ZERO, source)

    assert packed.output == Layout.of(F16, [2, 3])
    assert packed.shortest_input == 100


def test_a_payload_has_one_of_two_lengths_and_others_are_told_which() -> None:
    layout = Layout.of(F16, [3], byte_length=8)
    made = RoundCall(Rounding.TIES_TO_EVEN, layout, layout, 6)
    assert made.lengths == (8, 6)
    refusal = wrong_size(7, made.lengths)
    assert isinstance(refusal, PayloadSizeMismatch)
    assert str(refusal) == "the payload must have 6 or 8 bytes for this descriptor, got 7"
    assert "must have 8 bytes" in str(wrong_size(7, (8, 8)))


def test_both_sizes_are_limited() -> None:
    call({}, {}).check_sizes(12)
    long = {"byte_length": 13}
    for made, which in ((call(long, {}), "input"), (call({}, long), "output")):
        with pytest.raises(TensorTooLarge, match=f"the {which} tensor has 13 bytes"):
            made.check_sizes(12)
