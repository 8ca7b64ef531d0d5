"""The verdict on each node of a model, by the rule of its specification.

test_model_graphs.py has whole models.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import NotSupported, all_patterns
from tensor_round_verify.conversions.linear import dequantized
from tensor_round_verify.graphs.graph import (
    Casting,
    Dequantizing,
    Node,
    Quantizing,
    Rounding,
    Rule,
    cast_rule,
)
from tensor_round_verify.graphs.judging import NoRule, alone, verdict_of
from tensor_round_verify.reference import bits_type
from tensor_round_verify.report import Verdict
from tensor_round_verify.runtimes import PythonFunction, open_runtime
from tensor_round_verify.runtimes.model_tensors import Tensor

Array = npt.NDArray[Any]


def node(rule: Rule) -> Node:
    return Node("n", "Operator", rule, ("x", "scale", "zero_point"), ("y",))


def judged(rule: Rule, got: Array, *operands: Array) -> Verdict:
    return verdict_of(node(rule), [Tensor.of(x) for x in operands], Tensor.of(got), "bits")


def examples(verdict: Verdict) -> list[str]:
    return sorted(str(one) for count in verdict.classes for one in count.first)


def test_a_large_tensor_is_explained_over_all_of_its_elements() -> None:
    """A fault far behind the elements on which deviations are tried first rules one out."""
    x = np.random.default_rng(754).normal(0, 9, 200_000).astype(np.float32)
    x[[17, 150_000]] = 2.5, 1025.5
    got = np.rint(x)
    got[[17, 150_000]] = 3, 1026
    verdict = judged(Rounding("ties_to_even"), got, x.reshape(400, 500))
    assert (verdict.wrong, str(verdict.explanation)) == (1, "this is half away from zero")
    assert examples(verdict)[0].startswith("[0, 17]: x 2.5 ")
    got[199_999] += 1
    verdict = judged(Rounding("ties_to_even"), got, x.reshape(400, 500))
    assert (verdict.wrong, verdict.tried) == (2, 200_000)
    assert str(verdict.explanation) == "no named deviation explains it"


def test_a_tensor_without_elements_and_one_without_dimensions() -> None:
    empty = judged(Rounding("ties_to_even"), *[np.zeros((0, 3), np.float16)] * 2)
    assert (empty.tried, empty.wrong) == (0, 0)
    scalar = judged(Rounding("ties_to_even"), np.float32([3])[0], np.array(2.5, np.float32))
    assert examples(scalar) == [
        "[]: x 2.5 (0x40200000): got 3.0 (0x40400000), want 2.0 (0x40000000)"
    ]


def test_a_cast_that_rounds_twice() -> None:
    x = np.array([[1.125 + 2**-9, 70000]], np.float32)
    got = x.astype(ml_dtypes.bfloat16).astype(ml_dtypes.float8_e5m2)
    verdict = judged(Casting("float8_e5m2"), got, x)
    assert (verdict.wrong, str(verdict.explanation)) == (1, "this is through bfloat16")
    assert examples(verdict)[0].startswith("[0, 0]: x 1.126953")
    verdict = judged(Casting("float8_e5m2", saturate=True), x.astype(ml_dtypes.float8_e5m2), x)
    assert str(verdict.explanation) == "this is does not saturate"


SCALES = np.array([0.5, 0.25], np.float32)
POINTS = np.array([3, 0], np.int8)


def channels(x: Array, axis: int) -> tuple[Array, Array]:
    """Scales and zero points in the shape of the axis."""
    shape = [1] * x.ndim
    shape[axis] = 2
    return SCALES.reshape(shape), POINTS.reshape(shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_quantization_by_axis(axis: int) -> None:
    x = np.array([[-1.25, 0.3], [1.125, 99]], np.float32)
    scale, point = channels(x, axis)
    right = np.clip(np.rint(x / scale) + point, -128, 127).astype(np.int8)
    rule = Quantizing(axis)
    assert judged(rule, right, x, SCALES, POINTS).wrong == 0
    away = np.clip(np.trunc(x / scale + np.copysign(0.5, x)) + point, -128, 127).astype(np.int8)
    verdict = judged(rule, away, x, SCALES, POINTS)
    assert verdict.wrong == np.count_nonzero(away != right) >= 1
    assert str(verdict.explanation) == "this is half away from zero"
    assert "by scale 0.5 and zero point 3" in "".join(examples(verdict))
    found, note = alone(node(rule), [Tensor.of(a) for a in (x, SCALES, POINTS)], quantizer())
    assert (found.bits.tobytes(), found.shape, note) == (right.tobytes(), (2, 2), "")


def quantizer() -> PythonFunction:
    def quantize(x: Array, scale: Array, zero_point: Array, axis: int = 0) -> Array:
        shape = (-1, *[1] * (x.ndim - 1 - axis % x.ndim)) if scale.ndim else ()
        quotients = np.rint(x / scale.reshape(shape)) + zero_point.reshape(shape)
        info = np.iinfo(zero_point.dtype)
        clipped: Array = np.clip(quotients, info.min, info.max).astype(zero_point.dtype)
        return clipped

    return PythonFunction(quantize, 30)


def test_a_nan_has_no_quantization() -> None:
    x = np.array([np.nan, 2.5, np.nan, 3.5], np.float32)
    got = np.array([7, 2, 7, 3], np.uint8)
    verdict = judged(Quantizing(0), got, x, np.float32([1]))
    assert (verdict.tried, verdict.wrong) == (2, 1)
    assert examples(verdict)[0].startswith("[3]: x 3.5 ")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_dequantization_is_the_product_rounded_once(dtype: str) -> None:
    own = np.dtype({"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype))
    q = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    scales = np.array([0.1, 7.7], own)
    points = np.array([-5, 100], np.int8)
    integers = q.astype(np.int64) - points[:, None]
    # The product has at most 9 and 24 bits: float64 holds it.
    want = (integers * scales.astype(np.float64)[:, None]).astype(own)
    assert judged(Dequantizing(0), want, q, scales, points).wrong == 0
    wrong = want.copy()
    bits = wrong.view(bits_type(dtype))
    bits[1, 5] += 1
    verdict = judged(Dequantizing(0), wrong, q, scales, points)
    assert (verdict.wrong, verdict.explanation.complete) == (1, False)
    assert examples(verdict)[0].startswith("[1, 5]: x 5 (0x05) by scale 7.")


def test_products_beyond_the_largest_and_of_zero() -> None:
    scales = np.array([60000, 60000, 0.5, 0.5], np.float16).view(np.uint16)
    integers = np.array([2, -2, 0, -1], np.int16).view(np.uint16)
    types = "int16", "float16", "float16"
    found = dequantized(integers, scales, None, types).view(np.float16)
    assert [str(value) for value in found] == ["inf", "-inf", "0.0", "-0.5"]
    odd = np.array([0x3C01], np.uint16)
    exact = Fraction(65535) * (1 + Fraction(1, 1024))
    assert exact > 65504 + 16  # half a place beyond the largest
    whole = np.array([65535], np.uint16)
    assert dequantized(whole, odd, None, ("uint16", *types[1:]))[0] == 0x7C00


LACKING: dict[str, tuple[Rule, list[Array], str]] = {
    "int64-scales": (Quantizing(0), [np.float32([1]), np.int64([1])], "scales of int64"),
    "int32-quotients": (
        Quantizing(0, precision="int32"),
        [np.float32([1]), np.float32([1])],
        "quotients of int32",
    ),
    "zero": (Quantizing(0), [np.float32([1]), np.float32([0])], "not positive and finite"),
    "negative": (Quantizing(0), [np.float32([1]), np.float32([-1])], "not positive and finite"),
    "two-axes": (
        Quantizing(0),
        [np.ones((3, 2), np.float32), np.ones(2, np.float32), np.zeros(2, np.uint8)],
        r"2 scales of \[3, 2\]",
    ),
    "blocks-of-others": (
        Quantizing(1, block_size=2),
        [np.ones((3, 5), np.float32), np.ones((3, 2), np.float32)],
        r"6 scales of \[3, 5\]",
    ),
    "no-such-axis": (
        Quantizing(2, block_size=2),
        [np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)],
        r"6 scales of \[3, 4\]",
    ),
    "float64": (Quantizing(0), [np.float64([1]), np.float64([1])], "float64 to uint8"),
    "bool": (Rounding("ties_to_even"), [np.array([True])], "has type bool"),
    "another-type": (Rounding("ties_to_even"), [np.float32([1])], "turned float32 into uint8"),
    "other": (Casting("int8"), [np.int32([1])], "turned int32 into uint8"),
}


def narrow(*values: float) -> Array:
    return np.array(values, ml_dtypes.float8_e4m3fn)


IN_BLOCKS = np.arange(-11, 11, dtype=np.float32).reshape(2, 11) / 4
OF_BLOCKS = np.array([[0.25, 0.5, 1], [2, 0.125, 0.3]], np.float32)
#: What a node was given, its right result, and what no other rule gives: of blocks whose last is
#: not whole, by zero points that are no integers, with quotients and scales of other types.
SCALED: dict[str, tuple[Rule, list[Array], Array]] = {
    "blocks": (
        Quantizing(1, "int8", block_size=4),
        [IN_BLOCKS, OF_BLOCKS, np.array([[1, 2, 3], [-1, -2, -3]], np.int8)],
        np.clip(
            np.rint(IN_BLOCKS / OF_BLOCKS.repeat(4, 1)[:, :11])
            + np.array([[1, 2, 3], [-1, -2, -3]]).repeat(4, 1)[:, :11],
            -128,
            127,
        ).astype(np.int8),
    ),
    "blocks-back": (
        Dequantizing(-1, block_size=4),
        [np.arange(22, dtype=np.uint8).reshape(2, 11), OF_BLOCKS],
        np.arange(22, dtype=np.float32).reshape(2, 11) * OF_BLOCKS.repeat(4, 1)[:, :11],
    ),
    "float-points": (
        Quantizing(0),
        [np.float32([1, -8, 500]), np.float32([0.5]), narrow(1.5)],
        narrow(3.5, -14, 448),
    ),
    "float-points-back": (
        Dequantizing(0),
        [narrow(3.5, -14, 448), np.float32([0.5]), narrow(1.5)],
        np.float32([1, -7.75, 223.25]),
    ),
    "precision": (
        # In bfloat16 the quotient 257 is 256.
        Quantizing(0, "int16", precision="bfloat16"),
        [np.float32([257, 2.5]), np.float32([1])],
        np.int16([256, 2]),
    ),
    "e8m0-scales": (
        Quantizing(0, "int8"),
        [np.float32([7, 10]), np.array([4], ml_dtypes.float8_e8m0fnu)],
        np.int8([2, 2]),
    ),
    "results-of-another-type": (
        Dequantizing(0, "float16"),
        [np.int8([2, 127]), np.float32([1000])],
        np.float16([2000, np.inf]),
    ),
}


@pytest.mark.parametrize(("rule", "operands", "right"), SCALED.values(), ids=SCALED)
def test_blocks_float_zero_points_precisions_and_scales_of_other_types_are_judged(
    rule: Rule, operands: list[Array], right: Array
) -> None:
    assert judged(rule, right, *operands).right
    wrong = right.copy()
    wrong.view(f"u{right.itemsize}").flat[1] += 1
    assert judged(rule, wrong, *operands).wrong == 1
    asked: list[tuple[int, int]] = []

    def runtime(
        x: Array,
        scale: Array,
        zero_point: Array,
        axis: int = 0,
        block_size: int = 0,
        precision: Any = None,
        output_dtype: Any = None,
    ) -> Array:
        asked.append((axis, block_size))
        assert x.shape == operands[0].shape
        assert scale.tobytes() == operands[1].tobytes()
        assert zero_point.shape == scale.shape
        return wrong

    tensors = [Tensor.of(each) for each in operands]
    found, _ = alone(node(rule), tensors, PythonFunction(runtime, 30))
    assert found.array().tobytes() == wrong.tobytes()
    if operands[0].ndim > 1:
        assert isinstance(rule, Quantizing | Dequantizing)
        assert asked == [(rule.axis, rule.block_size)]


@pytest.mark.parametrize(("rule", "operands", "why"), LACKING.values(), ids=LACKING)
def test_tensors_without_a_rule(rule: Rule, operands: list[Array], why: str) -> None:
    got = np.zeros(operands[0].shape, np.uint8)
    with pytest.raises(NoRule, match=why):
        judged(rule, got, *operands)


CASTS = {
    ("float32", "float16"): Casting("float16"),
    ("bfloat16", "float16"): Casting("float16"),
    ("float16", "float32"): Casting("float32"),
    ("float32", "float32"): Casting("float32"),
    ("", "float32"): Casting("float32"),
    ("int8", "float16"): Casting("float16"),
    ("", "int64"): Casting("int64"),
    ("float32", "bool"): "no rule is known here for a cast from float32 to bool",
    ("", "float8_e8m0fnu"): "no rule is known here for a cast from another type to float8_e8m0fnu",
}


@pytest.mark.parametrize(("types", "rule"), CASTS.items(), ids=map("-to-".join, CASTS))
def test_every_cast_of_numbers_is_judged_and_others_have_a_reason(
    types: tuple[str, str], rule: Casting | str
) -> None:
    assert cast_rule(*types, saturate=False) == rule


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_widening_cast_keeps_every_number(source: str) -> None:
    x = all_patterns(source).view(BY_NAME[source].numpy)
    wide = x.astype(np.float32)
    assert judged(Casting("float32"), wide, x).right
    wide[1] = 7
    assert judged(Casting("float32"), wide, x).wrong == 1


@pytest.mark.parametrize(
    ("rule", "beyond"),
    [("saturate", [127, 127]), ("x86", [44, 0]), ("arm", [44, -1]), ("wrap", [44, 5])],
)
def test_a_cast_to_integers_follows_any_of_the_rules(rule: str, beyond: list[int]) -> None:
    x = np.array([-1.75, 0.5, 300.0, 2.0**32 + 5, np.nan])
    y = np.array([-1, 0, *beyond, 0], np.int8)
    verdict = judged(Casting("int8"), y, x)
    assert (verdict.right, verdict.rule) == (True, rule)
    y[0] = -2
    assert judged(Casting("int8"), y, x).wrong == 1


def test_the_elements_of_4_bits_come_two_in_a_byte() -> None:
    assert Tensor.of_bytes("int4", (3,), b"\xf1\x07").bits.tolist() == [1, 15, 7]


def test_a_runtime_alone_casts_and_lacks_the_rest() -> None:
    numpy = open_runtime("numpy")
    x = [Tensor.of(np.array([[2.5000001]], np.float32))]
    found, note = alone(node(Casting("bfloat16")), x, numpy)
    assert (found.dtype, found.shape, note) == ("bfloat16", (1, 1), "")
    one = Tensor.of(np.float32([1]))
    with pytest.raises(NotSupported, match="no quantize_linear"):
        alone(node(Quantizing(0)), [*x, one], numpy)
    with pytest.raises(NotSupported, match="no dequantize_linear"):
        alone(node(Dequantizing(0)), [Tensor.of(np.int8([[2]])), one], numpy)
    with pytest.raises(NoRule, match="has type bool"):
        alone(node(Rounding("ties_to_even")), [Tensor.of(np.array([True]))], numpy)
