"""Calls of linear quantization: scales and zero points behind the input."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.errors import TensorTooLarge
from tensor_round.contract.functions import Dequantize, FakeQuantize, Quantize
from tensor_round.contract.layout import Layout

F32, F16, I8, I4, E8M0 = (
    BY_NAME[name] for name in ("float32", "float16", "int8", "int4", "float8_e8m0fnu")
)

# the shape, the scale's, the blocks if they are given, and those that must come out
BLOCKS: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int] | None, tuple[int, ...]]] = {
    "per tensor": ([4, 6], [1, 1], None, (4, 6)),
    "a scalar": ([], [], None, ()),
    "per axis": ([4, 6], [1, 6], None, (4, 1)),
    "an element": ([4, 6], [4, 6], None, (1, 1)),
    "blocked": ([4, 6], [4, 2], None, (1, 3)),
    "in two dimensions": ([4, 6], [2, 3], None, (2, 2)),
    "a last block that is shorter": ([5], [2], [4], (4,)),
    "one block that is longer": ([5], [1], [8], (8,)),
    "no elements, one parameter": ([0, 3], [1, 3], None, (1, 1)),
    "no elements, no parameter": ([0], [0], None, (1,)),
}


@pytest.mark.parametrize(("shape", "counts", "given", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_an_element_has_the_parameters_of_its_block(
    shape: Sequence[int],
    counts: Sequence[int],
    given: Sequence[int] | None,
    blocks: tuple[int, ...],
) -> None:
    made = Parameters.of(shape, Layout.of(F32, counts), I8, given)
    assert made.blocks == blocks
    assert made.zero_point == Layout.of(I8, counts)


@pytest.mark.parametrize(
    ("shape", "counts", "blocks"), [([5], [4], None), ([6], [2], [2]), ([6], [2], [0])]
)
def test_blocks_that_make_another_number_of_parameters_are_refused(
    shape: Sequence[int], counts: Sequence[int], blocks: Sequence[int] | None
) -> None:
    with pytest.raises(ValueError, match="do not divide"):
        Parameters.of(shape, Layout.of(F32, counts), I8, blocks)


def test_a_payload_has_the_scale_and_the_zero_point_behind_the_input() -> None:
    source, scale = Layout.of(F32, [2, 3]), Layout.of(F32, [1, 3])
    calls = [
        Call(
            Quantize(), source, Layout.of(to, [2, 3]), 24, Parameters.of([2, 3], scale, zero_point)
        )
        for to, zero_point in ((I8, I8), (I8, None), (I4, I4))
    ]

    assert [call.lengths for call in calls] == [(39,), (36,), (38,)]
    # Narrower results overwrite the input.
    assert [call.nbytes for call in calls] == [39, 36, 38]


def test_results_are_in_place_only_if_the_input_lies_in_the_order_of_the_parameters() -> None:
    parameters = Parameters.of([2, 3], Layout.of(F32, [1, 3]), I8)
    layouts = [Layout.of(dtype, [2, 3], [1, 2]) for dtype in (F32, I8)]
    transposed = Call(Quantize(), *layouts, 24, parameters)
    assert transposed.is_flat
    assert not transposed.is_in_place
    assert transposed.nbytes == 24 + 15 + 6


def test_scale_and_zero_point_are_limited_in_size() -> None:
    each = Parameters.of([6], Layout.of(F32, [6]), I8)
    call = Call(Dequantize(), Layout.of(I8, [6]), Layout.of(F16, [6]), 6, each)
    call.check_sizes(24)
    with pytest.raises(TensorTooLarge, match="the scale tensor has 24 bytes, the limit is 23"):
        call.check_sizes(23)
    narrow = Parameters.of([24], Layout.of(E8M0, [24]), BY_NAME["int32"])
    call = Call(Dequantize(), Layout.of(I8, [24]), Layout.of(F16, [24]), 24, narrow)
    with pytest.raises(TensorTooLarge, match="the zero point tensor has 96 bytes"):
        call.check_sizes(90)


def test_quotients_have_the_type_of_the_scale_or_the_precision() -> None:
    quotients = {dtype.name: Quantize().quotient_type(dtype) for dtype in DTYPES}
    assert quotients["float32"] is F32
    assert quotients["float16"] is F16
    assert quotients["int32"] is None
    assert quotients["float8_e8m0fnu"] is None
    assert Quantize(precision=F32).quotient_type(E8M0) is F32


def test_no_function_of_quantization_is_a_copy() -> None:
    for function in (Quantize(), Dequantize(), FakeQuantize(through=I4)):
        assert not function.is_copy(F32, F32)
