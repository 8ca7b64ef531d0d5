"""Views of memory: a layout's elements, runs of them in C order, and patterns."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.host_memory import (
    bits,
    patterns,
    refuse_loss_of_gradient,
    refuse_loss_of_mask,
    runs,
    strided_view,
)
from tensor_round.contract.layout import Layout

F16 = BY_NAME["float16"]

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
    assert (seen.dtype.kind, seen.dtype.byteorder) == ("u", x.dtype.byteorder)
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
