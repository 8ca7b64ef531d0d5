"""The differences between roundings, counted against the reference and told where they are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.engine.differences import check_dense, compared
from tensor_round_verify.reference import rounded

#: More than are compared at once.
COUNT = 100_000


@pytest.mark.parametrize("order", ["<", ">"])
def test_differences_are_counted_and_found_in_the_whole_tensor(order: str) -> None:
    values = np.arange(COUNT, dtype=np.float32)
    places = [COUNT // 2, COUNT - 1]
    values[places] = 0.5, -2.25
    shape = (COUNT // 10, 10)
    layout = Layout.of(BY_NAME["float32"], shape)
    memory = values.astype(f"{order}f4").view(np.uint8)
    before, pauses = memory.copy(), list[None]()
    found = compared(memory, layout, swapped=order == ">", pause=lambda: pauses.append(None))
    assert np.array_equal(memory, before)
    assert 1 < len(pauses) < 10, "there is one after each block"
    assert (found["dtype"], found["shape"], found["elements"]) == ("float32", shape, COUNT)
    bits = values[places].view(np.uint32)
    results = {rounding.value: rounded(bits, "float32", rounding.value) for rounding in Rounding}
    expected = {
        pair: [
            tuple(map(int, np.unravel_index(place, shape)))
            for at, place in enumerate(places)
            if results[pair[0]][at] != results[pair[1]][at]
        ]
        for pair in combinations(results, 2)
    }
    told = {
        tuple(pair["roundings"]): sorted(
            example["index"] for one in pair["classes"].values() for example in one["first"]
        )
        for pair in found["pairs"]
    }
    assert told == expected
    for pair in found["pairs"]:
        assert pair["different"] == len(expected[tuple(pair["roundings"])])


def test_a_rank_that_no_operator_accepts_is_refused() -> None:
    layout = Layout.of(BY_NAME["float32"], (1,) * 33)
    with pytest.raises(InvalidDescriptor, match="at most 32 dimensions"):
        compared(np.zeros(4, np.uint8), layout)


def test_gaps_and_repeated_elements_are_refused() -> None:
    dtype = BY_NAME["float32"]
    check_dense(Layout.of(dtype, (2, 3)))
    check_dense(Layout.of(dtype, (2, 3), (1, 2)))
    for strides in ((4, 1), (0, 1)):
        with pytest.raises(InvalidDescriptor) as refused:
            check_dense(Layout.of(dtype, (2, 3), strides))
        (fault,) = refused.value.faults
        assert fault.loc == ("strides",)
        assert "no gaps" in fault.msg
