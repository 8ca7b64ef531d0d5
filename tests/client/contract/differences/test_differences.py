"""Where the rounding directions differ on an array, beside what the reference says of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.descriptors import WORDS
from support.cases.wrong_kernels import Array
from tensor_round.contract.differences.document import value_text
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import ROUNDINGS, PatternClass, rounded, samples
from tensor_round_verify.reference import FLOATS, is_nan


def by_definition(x: Array, dtype: str) -> dict[tuple[str, str], dict[str, list[int]]]:
    """For each pair of directions, by class, the places where their results differ."""
    even = rounded(x, dtype, "ties_to_even")
    codes = tr.conformance.classify(x, dtype, even)
    found = {}
    for place, some in enumerate(ROUNDINGS):
        for other in ROUNDINGS[place + 1 :]:
            differ = rounded(x, dtype, some) != rounded(x, dtype, other)
            found[some, other] = {
                kind.label: np.flatnonzero(differ & (codes == kind)).tolist()
                for kind in PatternClass
                if (differ & (codes == kind)).any()
            }
    return found


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_nan_is_told_as_one(dtype: str) -> None:
    """Signalling ones too, of which a conversion would warn."""
    bits = samples(dtype)
    for one in bits[is_nan(dtype, bits)][:300].tolist():
        assert value_text(dtype, one) == "NaN"


@pytest.mark.parametrize("dtype", BY_NAME)
def test_where_directions_differ(dtype: str) -> None:
    x = np.random.default_rng(3).permutation(samples(dtype))
    found = tr.compare(x.view(BY_NAME[dtype].numpy))
    expected = by_definition(x, dtype)
    assert [pair.roundings for pair in found.pairs] == list(expected)
    for pair in found.pairs:
        places = expected[pair.roundings[0], pair.roundings[1]]
        counts = {label: row.different for label, row in pair.classes.items()}
        assert counts == {label: len(here) for label, here in places.items()}
        assert pair.different == sum(counts.values())
        for label, row in pair.classes.items():
            assert [list(e.index) for e in row.first] == [[i] for i in places[label][:3]]
            for element in row.first:
                (i,) = element.index
                assert int(element.x.bits, 16) == x[i]
                for name, value in element.results.items():
                    assert int(value.bits, 16) == rounded(x[i : i + 1], dtype, name)[0]


def test_differences_are_told() -> None:
    found = tr.compare(np.array([[-2.5, -0.3], [0.5, 1.5]], np.float32))
    assert str(found).splitlines()[:8] == [
        "float32 of shape [2, 2]: 4 elements",
        *(f"{rounding}: {', '.join(names)}" for rounding, names in WORDS.items()),
        "",
        "ties_to_even and ties_to_away differ in 2 elements, all exact ties; "
        "first [0, 0]: x -2.5, ties_to_even -2.0, ties_to_away -3.0",
    ]
    assert "<td>ties_to_even and ties_to_away</td><td>2</td><td>all exact ties" in (
        found._repr_html_()
    )
    assert tr.Differences.from_data(json.loads(json.dumps(found.as_data()))) == found
    whole = str(tr.compare(np.ones(3, np.float32)))
    assert "ties_to_even and ties_to_away do not differ" in whole


def test_operators_are_those_that_take_the_tensor() -> None:
    integers = tr.compare(np.ones(3, np.int8)).operators
    assert integers["ties_to_even"] == ("openvino:half_to_even", "array_api:round")
    nine = tr.compare(np.ones((1,) * 9, np.float32)).operators
    assert nine["ties_to_away"] == tuple(
        name for name in WORDS["ties_to_away"] if "directml" not in name
    )


@pytest.mark.parametrize("data", [{}, {"dtype": "float32", "pairs": 7}])
def test_another_document_is_no_comparison(data: dict[str, Any]) -> None:
    with pytest.raises(tr.ProtocolViolation, match="is not a comparison"):
        tr.Differences.from_data(data)
