"""Layouts against brute force, every element's place written out, and calls on them.

And views of memory: a layout's elements, runs of them in C order, and patterns.
"""

from __future__ import annotations

import itertools
import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.call import Call, wrong_size
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.errors import (
    InvalidArgument,
    InvalidDescriptor,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.host_memory import (
    bits,
    pack,
    patterns,
    refuse_loss_of_gradient,
    refuse_loss_of_mask,
    runs,
    strided_view,
    unpack,
)
from tensor_round.contract.layout import FieldNames, Layout, are_distinct, check_size, layout_faults
from tensor_round.contract.rounding import Rounding

F16 = BY_NAME["float16"]
F32 = BY_NAME["float32"]
I8 = BY_NAME["int8"]
I4 = BY_NAME["int4"]


def places(layout: Layout) -> list[int]:
    """Where each element lies, in elements from the start, in C order of indices."""
    indices = itertools.product(*map(range, layout.shape))
    return [sum(i * s for i, s in zip(index, layout.strides, strict=True)) for index in indices]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Layouts of up to four small dimensions; half of them permuted and padded, half any."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    if draw(st.booleans()):
        strides = draw(st.lists(st.integers(0, 20), min_size=len(shape), max_size=len(shape)))
        return Layout.of(I8, shape, strides)
    strides, step = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        step += draw(st.sampled_from([0, 0, 0, 1, 5]))
        strides[axis] = step
        step *= max(shape[axis], 1)
    return Layout.of(I8, shape, strides)


@given(layouts())
def test_a_layout_is_what_the_places_of_its_elements_say(layout: Layout) -> None:
    taken = places(layout)
    packed = list(range(len(taken)))
    assert layout.element_count == len(taken)
    assert layout.byte_length == max(taken, default=-1) + 1
    assert layout.is_free_of_overlap == (len(set(taken)) == len(taken))
    assert layout.is_dense == (sorted(taken) == packed)
    assert layout.is_packed == (taken == packed)


def test_bytes_of_elements_have_no_gaps_and_no_padding() -> None:
    assert Layout.of(F32, [2, 3], [8, 2], 100).element_bytes == 24
    assert Layout.of(F32, [2, 3], None, 24).byte_length == 24


@given(layouts(), layouts())
def test_lying_alike_means_the_same_places(one: Layout, other: Layout) -> None:
    if len(one.shape) == len(other.shape):
        moved = Layout.of(I8, one.shape, other.strides)
        assert one.lies_like(other.strides) == (places(one) == places(moved))


@pytest.mark.parametrize(
    ("shape", "strides", "is_free"),
    [
        ([2, 3], [3, 2], True),  # 0 2 3 4 5 7
        ([3, 4], [3, 2], False),  # 6 twice
        ([10**6, 10**6], [10**6 + 1, 10**6 - 1], True),
        ([10**6, 10**6 + 2], [10**6 + 1, 10**6 - 1], False),
        ([2] * 8, [81, 27, 9, 3, 1, 243, 729, 2187], True),
        ([2] * 8, [32, 16, 8, 4, 2, 1, 64, 127], False),
        ([2, 3] + [2] * 6, [3, 2, 16, 32, 64, 128, 256, 512], True),  # as many as are searched
    ],
)
def test_layouts_whose_dimensions_interlock(
    shape: list[int], strides: list[int], is_free: bool
) -> None:
    assert Layout.of(I8, shape, strides).is_free_of_overlap is is_free


@pytest.mark.parametrize("sizes", [(2, 3), (4, 5), (3, 2, 2), (2, 4, 3), (2, 2, 2, 2)], ids=str)
def test_all_small_strides_are_judged_right(sizes: tuple[int, ...]) -> None:
    """Each place is written out; most of these interlock."""
    indices = np.indices(sizes).reshape(len(sizes), -1)
    for strides in itertools.product(range(12 if len(sizes) < 3 else 7), repeat=len(sizes)):
        taken = (np.array(strides) @ indices).tolist()
        assert are_distinct(sizes, strides) == (len(set(taken)) == len(taken)), strides


def test_a_search_ends_after_its_steps() -> None:
    """Both are free of overlap: with 14 indices a dimension in 7,079 steps, with 16 in 10,673."""
    strides = [1000003177, 1414213819, 1732051033, 2236067717, 2645751523]
    assert are_distinct([14] * 5, strides)
    assert not are_distinct([16] * 5, strides)


PRIMES = [10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ([5000] * 8, PRIMES),
        ([5000] * 8, [prime**3 for prime in PRIMES]),
        ([13] * 5, PRIMES[:5]),
        ([2**59, 2**59 + 1], [2, 3]),
        ([2, 3] + [2] * 7, [3, 2, *(2**k for k in range(4, 11))]),
        ([2, 3], [2**62, 2**61 + 1]),
    ],
)
def test_overlap_proof_is_bounded_in_work(shape: list[int], strides: list[int]) -> None:
    """Of steps, dimensions and places; services prove between the requests of others."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        assert not are_distinct(shape, strides)
        times.append(time.thread_time() - began)
    assert min(times) < 0.01


# shape, strides -> least length in elements, dense, free of overlap
CASES: dict[str, tuple[list[int], list[int] | None, int, bool, bool]] = {
    "empty however strided": ([3, 0], [0, 7], 0, True, True),
    "one, broadcast": ([1], [0], 1, True, True),
    "32 dimensions": ([2] * 32, None, 2**32, True, True),
    "products beyond 64 bits": ([2**40, 2**40], None, 2**80, True, True),
    "strides beyond 64 bits in sum": ([2**62, 2**62], [2**62, 1], 2**124, True, True),
}


@pytest.mark.parametrize(
    ("shape", "strides", "length", "is_dense", "is_free"), CASES.values(), ids=CASES
)
def test_layouts_of_many_dimensions_and_of_large_sizes(
    shape: list[int], strides: list[int] | None, length: int, is_dense: bool, is_free: bool
) -> None:
    layout = Layout.of(I8, shape, strides)
    found = layout.byte_length, layout.is_dense, layout.is_free_of_overlap
    assert found == (length, is_dense, is_free)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_a_packed_layout_is_numpys(dtype: Any) -> None:
    array = np.empty((3, 1, 4), dtype.numpy)
    layout = Layout.of(dtype, array.shape)
    assert layout.byte_length == array.nbytes * dtype.width // (8 * dtype.itemsize)
    assert [stride * dtype.itemsize for stride in layout.strides] == list(array.strides)
    assert Layout.of(dtype, (2, 0, 3)).strides == (3, 3, 1)


_RANGE = "must be 0 to 2^63-1, got"
# shape, strides, byte_length -> faults by their paths
REFUSALS: dict[str, tuple[list[int], list[int] | None, int | None, dict[str, str]]] = {
    "negative size": ([2, -1], None, None, {"x.S.1": f"{_RANGE} -1"}),
    "size of 2^63": ([2**63], None, None, {"x.S.0": f"{_RANGE} {2**63}"}),
    "vast size": ([1 << 20_000], None, None, {"x.S.0": f"{_RANGE} an integer of 20001 bits"}),
    "negative stride": ([2], [-1], None, {"x.T.0": f"{_RANGE} -1"}),
    "few strides": ([2, 2], [1], None, {"x.T": "must have one entry per dimension, 2, got 1"}),
    "too short": (
        [2, 2],
        None,
        15,
        {"x.L": "must be at least 16, the end of the last element, got 15"},
    ),
    "everywhere": (
        [-1],
        [-1, -1],
        None,
        {
            **dict.fromkeys(("x.S.0", "x.T.0", "x.T.1"), f"{_RANGE} -1"),
            "x.T": "must have one entry per dimension, 1, got 2",
        },
    ),
}


@pytest.mark.parametrize(
    ("shape", "strides", "byte_length", "faults"), REFUSALS.values(), ids=REFUSALS
)
def test_invalid_layout_is_refused_in_the_dialects_names(
    shape: list[int], strides: list[int] | None, byte_length: int | None, faults: dict[str, str]
) -> None:
    names = FieldNames("S", "T", "L")
    found = layout_faults(F32, shape, strides, byte_length, loc=("x",), names=names)
    assert [str(fault) for fault in found] == [f"{path}: {why}" for path, why in faults.items()]
    with pytest.raises(InvalidDescriptor):
        Layout.of(F32, shape, strides, byte_length)


def test_types_of_4_bits_have_two_elements_a_byte_in_c_order() -> None:
    odd = Layout.of(I4, [3, 1, 3], [3, 7, 1], 6)
    assert (odd.element_bytes, odd.byte_length, odd.has_spare_bits) == (5, 6, True)
    assert odd.is_dense
    assert odd.is_packed
    assert not Layout.of(I4, [2, 3]).has_spare_bits
    assert [Layout.of(I4, [n]).byte_length for n in range(4)] == [0, 1, 1, 2]
    for strides in ([1, 2], [4, 1], [0, 1]):
        with pytest.raises(InvalidDescriptor, match=r"packed C order for int4.*: \[3, 1") as caught:
            Layout.of(I4, [2, 3], strides)
        assert caught.value.faults[0].loc == ("strides",)
    with pytest.raises(InvalidDescriptor, match="must be at least 3, the end of the last"):
        Layout.of(I4, [5], None, 2)


@given(st.lists(st.integers(-8, 7)))
def test_the_first_of_two_elements_is_the_low_half_of_their_byte(values: list[int]) -> None:
    elements = np.array(values).astype(I4.numpy)
    packed = pack(elements)
    assert packed.tobytes() == bytes(
        sum((value & 15) << 4 * place for place, value in enumerate(pair))
        for pair in (values[at : at + 2] for at in range(0, len(values), 2))
    )
    found = np.empty_like(elements)
    if len(values) % 2:
        packed[-1] |= 0xF0  # no element has it
    unpack(packed, found)
    np.testing.assert_array_equal(found.view(np.uint8), elements.view(np.uint8))


def test_the_size_limit_is_inclusive() -> None:
    check_size(Layout.of(F32, [4]), 16, "input")
    with pytest.raises(TensorTooLarge, match="the output tensor has 17 bytes, the limit is 16"):
        check_size(Layout.of(F32, [4], byte_length=17), 16, "output")


def test_a_size_beyond_reading_is_refused_in_few_words() -> None:
    with pytest.raises(TensorTooLarge) as refused:
        check_size(Layout.of(F32, [2**62] * 32), 2**30, "input")

    assert refused.value.got_bytes == 2 ** (62 * 32 + 2)
    assert len(refused.value.detail) < 100


# Calls: when their results can overwrite their input


def call(source: dict[str, Any], target: dict[str, Any]) -> Call:
    input, output = Layout.of(F16, [2, 3], **source), Layout.of(F16, [2, 3], **target)
    return Call(RoundToIntegral(Rounding.TIES_TO_EVEN), input, output, input.byte_length)


# the input's layout, the output's, whether in place, bytes of memory
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], bool, int]] = {
    "packed": ({}, {}, True, 12),
    "both padded behind": ({"byte_length": 16}, {"byte_length": 16}, True, 16),
    "the input padded behind": ({"byte_length": 16}, {}, False, 16 + 12),
    "the output padded behind": ({}, {"byte_length": 16}, False, 12 + 16),
    "both columns first": ({"strides": [1, 2]}, {"strides": [1, 2]}, True, 12),
    "transposed": ({"strides": [1, 2]}, {}, False, 12 + 12),
    "both with gaps": ({"strides": [4, 1]}, {"strides": [4, 1]}, False, 14 + 14),
    "a broadcast": ({"strides": [0, 1]}, {}, False, 6 + 12),
}


@pytest.mark.parametrize(("source", "target", "expected", "nbytes"), CALLS.values(), ids=CALLS)
def test_one_buffer_is_enough_where_both_lie_the_same_without_gaps(
    source: dict[str, Any], target: dict[str, Any], expected: bool, nbytes: int
) -> None:
    assert call(source, target).is_in_place is expected
    assert call(source, target).nbytes == nbytes


def test_a_packed_output_forgets_the_inputs_strides_and_padding() -> None:
    source = Layout.of(F16, [2, 3], [5, 1], 100)

    packed = Call.packed_output(RoundToIntegral(Rounding.TOWARD_ZERO), source)

    assert packed.output == Layout.of(F16, [2, 3])
    assert packed.shortest_input == 100


@pytest.mark.parametrize(
    ("shape", "strides", "output_bytes", "limit_bytes"),
    [
        ([2**24], [0], None, 2**24),
        ([2**24 + 1], [0], None, 2**24),
        ([], [], 2**24 + 1, 2**24),
        ([2**20, 64], [1, 0], None, 2**26),
        ([2**20, 65], [1, 0], None, 2**26),
    ],
)
def test_an_output_is_not_vast_beside_its_input(
    shape: list[int], strides: list[int], output_bytes: int | None, limit_bytes: int
) -> None:
    """By strides of 0, or gaps: 64 times as many bytes, or 16 MiB."""
    source, target = Layout.of(I8, shape, strides), Layout.of(I8, shape, None, output_bytes)
    amplifying = Call(RoundToIntegral(Rounding.TIES_TO_EVEN), source, target, source.byte_length)
    if target.byte_length <= limit_bytes:
        amplifying.check_sizes(2**30)
        return
    with pytest.raises(TensorTooLarge, match="64 times") as caught:
        amplifying.check_sizes(2**30)
    assert (caught.value.limit_bytes, caught.value.got_bytes) == (limit_bytes, target.byte_length)
    with pytest.raises(TensorTooLarge, match=r"the limit is 1$"):
        amplifying.check_sizes(1)


def test_a_payload_has_one_of_two_lengths_and_others_are_told_which() -> None:
    layout = Layout.of(F16, [3], byte_length=8)
    made = Call(RoundToIntegral(Rounding.TIES_TO_EVEN), layout, layout, 6)
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


# shape, strides, the places of the elements
LAYOUTS: dict[str, tuple[list[int], list[int] | None, Any]] = {
    "packed": ([2, 3], None, [[0, 1, 2], [3, 4, 5]]),
    "columns first": ([2, 3], [1, 2], [[0, 2, 4], [1, 3, 5]]),
    "gaps": ([2, 2], [4, 2], [[0, 2], [4, 6]]),
    "broadcast": ([2, 2], [0, 1], [[0, 1], [0, 1]]),
    "one of a far stride": ([1, 2], [2**62, 1], [[0, 1]]),
    "scalar": ([], None, 0),
    "empty": ([0, 3], [5, 1], np.empty((0, 3))),
}


@pytest.mark.parametrize(("shape", "strides", "places"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_seen_in_its_memory(
    shape: list[int], strides: list[int] | None, places: Any
) -> None:
    memory = np.arange(8, dtype="<f2").view(np.uint8)
    seen = strided_view(memory, Layout.of(F16, shape, strides))
    assert seen.dtype == np.float16
    assert seen.shape == tuple(shape)
    np.testing.assert_array_equal(seen, places)
    assert np.shares_memory(seen, memory) == (seen.size > 0)
    padded = Layout.of(F16, [3], byte_length=8)
    assert strided_view(memory[:6], padded).shape == (3,)


# shape, limit -> the shapes of the runs
CUTS: dict[str, tuple[tuple[int, ...], int, list[tuple[int, ...]]]] = {
    "whole": ((2, 3), 6, [(2, 3)]),
    "just not whole": ((2, 3), 5, [(1, 3), (1, 3)]),
    "rows": ((4, 3), 6, [(2, 3), (2, 3)]),
    "rows and a rest": ((5, 3), 6, [(2, 3), (2, 3), (1, 3)]),
    "even parts of rows": ((2, 7), 6, [(4,), (3,), (4,), (3,)]),
    "planes": ((3, 2, 2), 4, [(1, 2, 2)] * 3),
    "parts of planes": ((2, 3, 2), 5, [(2, 2), (1, 2)] * 2),
    "single": ((2, 2), 1, [(1,)] * 4),
    "scalar": ((), 1, [()]),
    "empty": ((0, 3), 0, [(0, 3)]),
}


@pytest.mark.parametrize(("shape", "limit", "parts"), CUTS.values(), ids=CUTS)
def test_runs_are_even_and_in_order(
    shape: tuple[int, ...], limit: int, parts: list[tuple[int, ...]]
) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    found = list(runs(x, limit))
    assert [run.shape for run in found] == parts
    np.testing.assert_array_equal(np.concatenate([run.reshape(-1) for run in found]), x.reshape(-1))
    assert all(np.shares_memory(run, x) for run in found if run.size)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 40))
def test_any_shape_is_covered_once(shape: list[int], limit: int) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    found = list(runs(x, limit))
    assert max(run.size for run in found) <= limit
    assert np.concatenate([run.reshape(-1) for run in found]).tolist() == list(range(x.size))


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<i8", ">i8", "u1"])
def test_patterns_are_little_endian_and_bits_as_they_are(dtype: str) -> None:
    x = np.arange(-6, 6).astype(dtype).reshape(3, 4).T
    seen = bits(x)
    assert (seen.dtype.kind, seen.dtype.isnative) == ("u", x.dtype.isnative)
    assert np.shares_memory(seen, x)
    assert seen.tobytes() == x.tobytes()
    found = list(patterns(x, 5))
    assert {(part.ndim, part.dtype.newbyteorder("<")) for part in found} == {(1, found[0].dtype)}
    wanted = x.astype(x.dtype.newbyteorder("<")).tobytes()
    assert b"".join(part.tobytes() for part in found) == wanted


MASKED = np.ma.MaskedArray([1.0], [True])
PLAIN = np.zeros(1)


def test_no_mask_is_lost() -> None:
    for x, out in ((MASKED, MASKED), (PLAIN, PLAIN), (PLAIN, PLAIN.copy())):
        refuse_loss_of_mask(x, out)
    for x, out in ((MASKED, PLAIN), (PLAIN, MASKED), (MASKED, MASKED.copy())):
        with pytest.raises(InvalidArgument, match="out must be x"):
            refuse_loss_of_mask(x, out)


def test_no_gradient_is_lost() -> None:
    refuse_loss_of_gradient(PLAIN)
    refuse_loss_of_gradient(SimpleNamespace(requires_grad=False))
    with pytest.raises(InvalidArgument, match=r"^y requires a gradient.* pass y\.detach\(\)$"):
        refuse_loss_of_gradient(SimpleNamespace(requires_grad=True), "y")
