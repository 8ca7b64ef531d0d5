"""What turned one array into another: rules named, exactly and but for some elements."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.cases.descriptors import WORDS
from support.cases.wrong_kernels import PLANTED, PLANTED_IDS, Array, int_of_sum, right, trunc_of_sum
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE
from tensor_round_verify import DEVIATIONS, ROUNDINGS, rounded, samples
from tensor_round_verify.comparison import by_instructions

RULES = {deviation.name: deviation.rounds for deviation in DEVIATIONS}
AWAY = WORDS["ties_to_away"]
FORMULAS = {deviation.name for deviation in DEVIATIONS if deviation.aspect == "formula"}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", [dtype.name for dtype in ROUNDABLE])
def test_rounding_by_instructions_is_the_reference(dtype: str, rounding: str) -> None:
    """On every pattern of 8 and 16 bits; of wider ones on the hard ones and a million others."""
    x = samples(dtype, random_count=1 << 20)
    np.testing.assert_array_equal(by_instructions(x, dtype, rounding), rounded(x, dtype, rounding))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "dtype", "asked", "names"),
    PLANTED,
    ids=PLANTED_IDS,
)
def test_a_planted_fault_is_named(
    kernel: Callable[[Array], Array], dtype: str, asked: str, names: list[str]
) -> None:
    a = samples(dtype).view(BY_NAME[dtype].numpy)
    with np.errstate(all="ignore"):
        found = tr.compare(a, kernel(a))
    directions = [RULES[name] for name in names if RULES[name]]
    formulas = FORMULAS & set(names) and not directions
    assert found.rounding == (directions[0] if directions else None if formulas else asked)
    assert list(found.deviations) == [name for name in names if not RULES[name]]
    assert (found.different, found.exact) == (0, bool(directions and not found.deviations))
    assert found.sentence.startswith("array b is array a rounded ")
    assert all(name in found.sentence for name in found.deviations)


@pytest.mark.parametrize("dtype", [name for name in BY_NAME if "int" in name])
def test_integers_are_theirs_under_every_direction(dtype: str) -> None:
    a = patterns(dtype, 1000)
    found = tr.compare(a, a.copy())
    assert found.exact
    assert str(found).startswith(
        "array b is array a rounded ties_to_even; ties_to_away, toward_zero, toward_positive and "
        "toward_negative would do the same\noperators: openvino:half_to_even, "
    )
    b = a.copy()
    b[7] ^= 1
    assert tr.compare(a, b).sentence.startswith(
        "array b is array a rounded ties_to_even, but for 1 of 1,000 elements, "
        "1 of the integers; first [7]: x "
    )


def test_ties_to_away_but_for_three_of_a_million() -> None:
    a = (np.random.default_rng(1).integers(-400, 400, (1000, 1000)) / 4).astype(np.float32)
    b = right(a, "ties_to_away")
    for place, x in (((12, 7), 2.5), ((500, 0), -4.5), ((999, 999), 0.5)):
        a[place], b[place] = x, np.rint(x)
    found = tr.compare(a, b)
    assert found.sentence == (
        "array b is array a rounded ties_to_away, but for 3 of 1,000,000 elements, all exact ties; "
        "first [12, 7]: x 2.5, b 2.0, expected 3.0"
    )
    assert (found.exact, found.explained, found.different) == (False, True, 3)
    assert found.operators == AWAY
    assert str(found).splitlines()[1:] == [
        f"operators: {', '.join(AWAY)}",
        "  exact ties: 3",
        "    [12, 7]: x 2.5, b 2.0, expected 3.0",
        "    [500, 0]: x -4.5, b -4.0, expected -5.0",
        "    [999, 999]: x 0.5, b 0.0, expected 1.0",
    ]
    data = json.loads(json.dumps(found.as_data()))
    row = data.pop("classes").pop("exact_tie")
    assert data == {
        "dtype": "float32",
        "target": "float32",
        "conversion": "",
        "shape": [1000, 1000],
        "elements": 1_000_000,
        "rounding": "ties_to_away",
        "deviations": [],
        "also": [],
        "operators": list(AWAY),
        "different": 3,
        "exact": False,
        "explained": True,
        "sentence": found.sentence,
        "names": ["array a", "array b"],
    }
    assert (row["name"], row["different"]) == ("exact ties", 3)
    assert [one["index"] for one in row["first"]] == [[12, 7], [500, 0], [999, 999]]
    assert row["first"][1]["x"] == {"value": "-4.5", "bits": "0xc0900000"}
    assert row["first"][1]["results"] == {
        "b": {"value": "-4.0", "bits": "0xc0800000"},
        "expected": {"value": "-5.0", "bits": "0xc0a00000"},
    }
    assert "<td>[12, 7]: x 2.5, b 2.0, expected 3.0</td>" in found._repr_html_()


def test_a_bit_of_a_nan_counts() -> None:
    a = np.array([0x7FC00001, 0x40200000, 0x7FC00002, 0x3FC00000], np.uint32)
    b = np.array([0x7FC00001, 0x40000000, 0x7FC00003, 0x40000000], np.uint32)
    found = tr.compare(a.view(np.float32), b.view(np.float32))
    assert found.sentence == (
        "array b is array a rounded ties_to_even, but for 1 of 4 elements, "
        "1 of the quiet NaNs with payload; "
        "first [2]: x NaN (0x7fc00002), b NaN (0x7fc00003), expected NaN (0x7fc00002)"
    )


def test_a_deviation_is_named_for_much_alone() -> None:
    """A clipped result is no deviation that has a name, though some fit a few more."""
    a = (np.random.default_rng(0).standard_normal(100_000) * 3).astype(np.float32)
    found = tr.compare(a, np.clip(np.rint(a), -4, 4))
    assert (found.rule, found.explained) == ("ties_to_even", True)
    b = np.rint(a.astype(np.float16)).astype(np.float32)
    b[:9] = 7
    found = tr.compare(a, b)
    assert (found.rule, found.different) == ("ties_to_even and through float16", 9)


@pytest.mark.parametrize("kernel", [trunc_of_sum, int_of_sum])
def test_halves_through_a_sum_are_no_ceil(kernel: Callable[[Array], Array]) -> None:
    a = (np.random.default_rng(3).integers(-400, 400, 20_000) / 2).astype(np.float32)
    found = tr.compare(a, kernel(a))
    assert (found.rounding, found.different, found.operators) == (None, 0, ())
    assert found.deviations[0] == "trunc(x + 0.5)"
    assert found.sentence.startswith("array b is array a rounded by trunc(x + 0.5)")


def test_a_rule_with_more_than_a_quarter_unexplained_is_none() -> None:
    a = np.arange(1000, dtype=np.float32) + np.float32(0.25)
    b = np.floor(a)
    b[:250] = 7.5
    found = tr.compare(a, b)
    assert (found.explained, found.different) == (True, 250)
    b[250] = 7.5
    found = tr.compare(a, b)
    assert (found.explained, found.different) == (False, 251)
    assert found.sentence.startswith(
        "no known rule; the nearest, ties_to_even, is wrong on 25 %: 251 of 1,000 elements, "
    )
    assert "operators" not in str(found)


def test_arrays_are_called_by_their_names() -> None:
    a = np.array([0.5, 1.5, 2.5], np.float32)
    found = tr.compare(a, np.rint(a)).named("x.npy", "by-kernel.npy")
    assert found.sentence == "by-kernel.npy is x.npy rounded ties_to_even"
    assert found.as_data()["names"] == ("x.npy", "by-kernel.npy")


def test_rules_that_do_the_same_are_told() -> None:
    a = np.array([0.3, 1.0, 2.7], np.float32)
    found = tr.compare(a, np.array([0, 1, 3], np.float32))
    assert (
        found.sentence == "array b is array a rounded ties_to_even; ties_to_away would do the same"
    )
    a = np.array([0.3, 1.0, 2.7, 4.0, 5.0], np.float32)
    found = tr.compare(a, np.array([7, 1, 3, 4, 5], np.float32))
    assert found.sentence.endswith("; ties_to_away and toward_positive would leave as many")
    zeros = np.full(5, -0.0, np.float32)
    assert tr.compare(zeros, abs(zeros)).sentence.endswith(" more would do the same")


@pytest.mark.slow
def test_differences_behind_long_padding_are_found() -> None:
    """Padding says nothing of the rule; what does lies behind a million elements."""
    a = np.zeros(1_300_000, np.float32)
    a[-1000:] = np.arange(-500, 500) / np.float32(4)
    b = np.floor(a + np.float32(0.5))
    assert tr.compare(a, b).rule == "floor(x + 0.5)"
    b[-1] += 1
    found = tr.compare(a, b)
    assert (found.rule, found.different) == ("floor(x + 0.5)", 1)
    assert "first [1299999]: x 124.75, b 126.0, expected 125.0" in found.sentence


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_beside_any_other(layout: str) -> None:
    a = LAYOUTS[layout](patterns("float32", 24 * 97))
    packed = np.ascontiguousarray(a).reshape(a.shape)
    b = right(packed.reshape(-1), "toward_positive").reshape(a.shape)
    before = bits(a).copy()
    found = tr.compare(a, np.array(b, order="F"))
    assert found.exact
    assert found.rounding == "toward_positive" or "toward_positive" in found.also
    assert (found.shape, found.elements) == (a.shape, a.size)
    assert np.array_equal(bits(a), before)
    assert tr.compare(a) == tr.compare(packed)


def test_big_endian_beside_little() -> None:
    a = patterns("float64", 500)
    b = expected_bits(a, "ties_to_away").astype(">u8").view(">f8")
    assert tr.compare(a, b).rounding == "ties_to_away"
    assert tr.compare(bits(a).astype(">u8").view(">f8")) == tr.compare(a)


NOT_ALIKE: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "shape": (np.zeros((2, 3)), np.zeros(6), tr.InvalidArgument, "b has shape (6,), a has (2, 3)"),
    "dtype": (
        np.zeros(3, "i4"),
        np.zeros(3, "i2"),
        tr.InvalidArgument,
        "b has dtype int16, a has int32",
    ),
    "no-array": (np.zeros(3), "text", tr.InvalidArgumentType, "b is a str, not an array"),
    "complex": (np.zeros(3, complex), np.zeros(3, complex), tr.InvalidDescriptor, "complex128"),
    "bool": (np.zeros(3, bool), None, tr.InvalidDescriptor, "bool"),
    "rank": (np.zeros((1,) * 33), None, tr.InvalidDescriptor, "32"),
}


@pytest.mark.parametrize(("a", "b", "kind", "why"), NOT_ALIKE.values(), ids=NOT_ALIKE)
def test_incomparable_arrays_are_refused(a: Any, b: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind) as caught:
        tr.compare(a, b)
    assert why in str(caught.value)


def test_every_pass_tells_how_far_it_is() -> None:
    a = np.full(100_000, 2.5, np.float32)
    told: list[tuple[int, int]] = []
    tr.compare(a, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 400_000)
    assert told[-1] == (400_000, 400_000)
    assert all(some[0] < other[0] for some, other in pairwise(told))


def numbers() -> Array:
    x = (np.random.default_rng(1).standard_normal((30, 50)) * 3).astype(np.float32)
    x[0, :4] = 0, -0.0, 500, 2.5
    return x


def quantized(x: Array, scale: float, point: int, dtype: Any) -> Array:
    ends = np.iinfo(dtype)
    return np.clip(np.rint(x / np.float32(scale)) + point, ends.min, ends.max).astype(dtype)


def truncated(x: Array) -> Array:
    return (x.view(np.uint32) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
#: What was made of numbers, the conversion in words, and the deviations in it.
CONVERTED: dict[str, tuple[Callable[[Array], Array], str, tuple[str, ...]]] = {
    "half": (lambda x: x.astype(np.float16), "cast to float16 ties_to_even", ()),
    "bits": (truncated, "cast to bfloat16 toward_zero", ()),
    "not-saturated": (lambda x: x.astype(E4M3), "cast to float8_e4m3fn ties_to_even", ()),
    "saturated": (
        lambda x: np.clip(x, -448, 448).astype(E4M3),
        "cast to float8_e4m3fn ties_to_even, saturated",
        (),
    ),
    "twice": (
        lambda x: x.astype(ml_dtypes.bfloat16).astype(E5M2),
        "cast to float8_e5m2 ties_to_even",
        ("through bfloat16",),
    ),
    "int8": (
        lambda x: quantized(x, 0.05, 0, np.int8),
        "quantized to int8 ties_to_even by scale 0.05 and zero point 0",
        (),
    ),
    "uint8": (
        lambda x: quantized(x, 0.0371, 128, np.uint8),
        "quantized to uint8 ties_to_even by scale 0.0371 and zero point 128",
        (),
    ),
    "narrow": (
        lambda x: np.maximum(quantized(x - 9, 0.05, 0, np.int8), -127),
        "quantized to int8 ties_to_even by scale 0.05 and zero point 0",
        ("narrow range",),
    ),
}


@pytest.mark.parametrize(("convert", "told", "names"), CONVERTED.values(), ids=CONVERTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_array_of_another_type_is_a_conversion(
    convert: Callable[[Array], Array], told: str, names: tuple[str, ...]
) -> None:
    a = numbers() - (9 if "narrow range" in names else 0)
    b = convert(numbers())
    found = tr.compare(a, b)
    assert isinstance(found, tr.Comparison)
    assert (found.dtype, found.target) == ("float32", b.dtype.name)
    assert (found.conversion, found.deviations, found.different) == (told, names, 0), str(found)
    assert found.exact == (not names)
    assert found.sentence.startswith(f"array b is array a {told}")
    b.reshape(-1)[777] = 1
    other = tr.compare(a, b)
    assert (other.different, other.exact) == (1, False)
    (row,) = json.loads(json.dumps(other.as_data()))["classes"].values()
    assert row["first"][0]["index"] == [15, 27]
    assert f", but for 1 of 1,500 elements, 1 of the {row['name']}; first [15, 27]: x " in str(
        other
    )


def test_integers_are_dequantized_by_the_scale_that_explains_them() -> None:
    a = quantized(numbers(), 0.0371, 128, np.uint8)
    b = ((a.astype(np.int32) - 128) * np.float64(np.float32(0.0371))).astype(np.float32)
    found = tr.compare(a, b)
    assert (found.exact, found.names) == (True, ("array a", "array b"))
    assert "dequantized to float32 by scale 0.0371 and zero point 128" in str(found)


def test_a_scale_that_is_given_is_taken() -> None:
    a = numbers()
    b = quantized(a, 0.05, 3, np.int8)
    found = tr.compare(a, b, scale=0.05, zero_point=3)
    assert (found.exact, found.different) == (True, 0)
    other = tr.compare(a, b, scale=0.04, zero_point=3)
    assert not other.explained
    with pytest.raises(tr.InvalidArgument, match="without scale and zero point"):
        tr.compare(a, a.astype(np.float16), scale=0.05)
    with pytest.raises(tr.InvalidArgument, match="rounding has no scale"):
        tr.compare(a, np.rint(a), scale=0.05)
