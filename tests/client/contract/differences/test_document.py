"""Differences: values, sentences, parts joined to a whole, and what the reference says of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.descriptors import WORDS
from support.cases.wrong_kernels import Array
from tensor_round.contract.differences.directions import DirectionTally
from tensor_round.contract.differences.document import (
    ClassDifference,
    Differences,
    Element,
    PairDifference,
    Value,
    bits_text,
    joined,
    table,
    value_text,
    which,
)
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import ProtocolViolation
from tensor_round.contract.operators.registry import operators_on
from tensor_round_verify import ROUNDINGS, PatternClass, classify, rounded, samples
from tensor_round_verify.reference import FLOATS, WIDTHS, is_nan

# dtype, number, as text
NUMBERS: list[tuple[str, float, str]] = [
    ("float32", 2.5, "2.5"),
    ("float32", 0.0, "0.0"),
    ("float32", -0.0, "-0.0"),
    ("float32", 16777216.0, "16777216.0"),
    ("float32", 0.1, "0.1"),
    ("float64", 1e-4, "0.0001"),
    ("float64", np.nextafter(1e-4, 0), "9.999999999999999e-05"),
    ("float64", 0.5, "0.5"),
    ("float64", 99999999999999984.0, "99999999999999980.0"),
    ("float64", 1e17, "1.0e+17"),
    ("float64", -1e300, "-1.0e+300"),
    ("float64", np.inf, "Infinity"),
    ("float64", -np.inf, "-Infinity"),
    ("float64", np.nan, "NaN"),
    ("float16", 65504.0, "65500.0"),
    ("bfloat16", 1.0078125, "1.0078125"),
    ("bfloat16", np.inf, "Infinity"),
    ("float8_e4m3fn", 0.001953125, "0.001953125"),
    ("int8", -7, "-7"),
    ("uint64", 2**64 - 1, "18446744073709551615"),
]


@pytest.mark.parametrize(("dtype", "number", "text"), NUMBERS)
def test_a_value_is_told_by_its_shortest_decimal(dtype: str, number: Any, text: str) -> None:
    row = BY_NAME[dtype]
    pattern = np.array([number]).astype(row.numpy).view(row.bits).tolist()[0]
    assert value_text(dtype, pattern) == text


def test_a_pattern_is_told_with_all_its_digits() -> None:
    assert [bits_text(dtype, 0x1F) for dtype in ("int8", "float16", "float64")] == [
        "0x1f",
        "0x001f",
        "0x000000000000001f",
    ]


def element(place: int) -> Element:
    value = Value("2.5", "0x40200000")
    return Element((place,), value, {"toward_zero": Value("2.0", "0x40000000")})


def ties(different: int, *places: int) -> ClassDifference:
    return ClassDifference("exact ties", different, tuple(map(element, places)))


FRACTION = ClassDifference("other fractions", 1, (element(0),))
SENTENCES: list[tuple[dict[str, ClassDifference], str]] = [
    ({"a": ties(2, 3, 4)}, ", all exact ties; first [3]: x 2.5, toward_zero 2.0"),
    ({"a": ties(1, 3)}, ", 1 of the exact ties; first [3]: x 2.5, toward_zero 2.0"),
    (
        {"a": ties(1200, 3), "b": FRACTION},
        ", 1,200 exact ties, 1 of the other fractions; first [0]: x 2.5, toward_zero 2.0",
    ),
]


@pytest.mark.parametrize(("classes", "sentence"), SENTENCES)
def test_which_elements_differ_is_told(classes: dict[str, ClassDifference], sentence: str) -> None:
    assert which(classes) == sentence


def test_a_pair_is_told_in_the_singular_and_in_the_plural() -> None:
    pair = ("ties_to_even", "toward_zero")
    assert str(PairDifference(pair, 0, {})) == "ties_to_even and toward_zero do not differ"
    one = str(PairDifference(pair, 1, {"a": ties(1, 3)}))
    assert one.startswith("ties_to_even and toward_zero differ in 1 element, 1 of the exact ties;")
    two = str(PairDifference(pair, 2000, {"a": ties(2000, 3)}))
    assert two.startswith("ties_to_even and toward_zero differ in 2,000 elements, all exact ties;")


def test_a_nan_is_told_with_its_pattern() -> None:
    assert str(Value("NaN", "0x7e00")) == "NaN (0x7e00)"
    assert str(Value("1.0", "0x3c00")) == "1.0"


def test_a_table_is_escaped() -> None:
    assert table(["a<"], [["b", "&"]]) == (
        "<table><tr><th>a&lt;</th></tr><tr><td>b</td><td>&amp;</td></tr></table>"
    )


def test_another_document_is_refused_with_its_first_wrong_place() -> None:
    data = differences(np.array([0.5], np.float32)).as_data()
    data["pairs"][1]["different"] = "many"
    with pytest.raises(ProtocolViolation, match=r"is not a comparison: pairs\.1\.different$"):
        Differences.from_data(data)


def differences(*parts: np.ndarray[Any, Any]) -> Differences:
    """The differences on a vector of float32 whose elements are added part by part."""
    tally = DirectionTally("float32", rounded)
    for part in parts:
        tally.add(part.view("<u4"))
    return tally.differences((sum(part.size for part in parts),))


X = np.tile(np.array([0.5, 1.0, -1.25, 2.5, np.nan], np.float32), 12)


def test_elements_are_counted_alike_however_they_are_added() -> None:
    whole = differences(X)
    assert [pair.different for pair in whole.pairs] == [24, 0, 24, 12, 24, 0, 36, 24, 12, 36]
    assert whole.pairs[0].classes["exact_tie"].first[1].index == (3,)
    for cuts in ([1], [5], [1, 2, 3, 4, 5, 6, 8], [59], [30, 30]):
        assert differences(*np.split(X, cuts)) == whole


@pytest.mark.parametrize("shape", [(60,), (5, 12), (3, 4, 5)])
def test_parts_are_joined_to_the_whole(shape: tuple[int, ...]) -> None:
    tally = DirectionTally("float32", rounded)
    tally.add(X.view("<u4"))
    parts = [(0, differences(X[:7])), (7, differences(X[7:8])), (8, differences(X[8:]))]
    assert joined(reversed(parts), "float32", shape) == tally.differences(shape)
    assert joined([(0, differences(X))], "float32", shape) == tally.differences(shape)


def by_definition(x: Array, dtype: str) -> dict[tuple[str, str], dict[str, list[int]]]:
    """For each pair of directions, by class, the places where their results differ."""
    even = rounded(x, dtype, "ties_to_even")
    codes = classify(x, dtype, even)
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


@pytest.mark.parametrize("dtype", WIDTHS)
def test_where_directions_differ(dtype: str) -> None:
    x = np.random.default_rng(3).permutation(samples(dtype))
    found = tr.compare(x.view(BY_NAME[dtype].numpy))
    expected = by_definition(x, dtype)
    assert [pair.roundings for pair in found.pairs] == list(expected)
    assert found.operators == operators_on(dtype, x.shape)
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
    assert Differences.from_data(json.loads(json.dumps(found.as_data()))) == found
    alike = tr.compare(np.ones(3, np.float32))
    assert "ties_to_even and ties_to_away do not differ" in str(alike)
    assert "<td>ties_to_even and ties_to_away</td><td>0</td><td></td>" in alike._repr_html_()
