"""The verdict on one node: its rule, on the tensors that reached it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tensor_round_verify import NotTaken
from tensor_round_verify.conversions.reference import dequantized
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
from tensor_round_verify.runtimes.tensors import Tensor

Array = npt.NDArray[Any]


def node(rule: Rule) -> Node:
    return Node("n", "Operator", rule, ("x", "scale", "zero_point"), "y")


def judged(rule: Rule, got: Array, *operands: Array) -> Verdict:
    return verdict_of(node(rule), [Tensor.of(x) for x in operands], Tensor.of(got), "bits")


def examples(verdict: Verdict) -> list[str]:
    return sorted(str(one) for count in verdict.classes for one in count.first)


def test_a_large_tensor_is_explained_over_all_of_its_elements() -> None:
    """A fault far behind the elements on which models are tried first rules a model out."""
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
    assert str(verdict.explanation) == "no named model explains it"


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
        shape = (-1, *[1] * (x.ndim - 1)) if scale.ndim else ()
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
    integers = np.array([2, -2, 0, -1])
    found = dequantized(integers, scales, "float16").view(np.float16)
    assert [str(value) for value in found] == ["inf", "-inf", "0.0", "-0.5"]
    odd = np.array([0x3C01], np.uint16)
    exact = Fraction(65535) * (1 + Fraction(1, 1024))
    assert exact > 65504 + 16  # half a place beyond the largest
    assert dequantized(np.array([65535]), odd, "float16")[0] == 0x7C00


LACKING: dict[str, tuple[Rule, list[Array], str]] = {
    "int32-scales": (Quantizing(0), [np.float32([1]), np.int32([1])], "scales of int32"),
    "zero": (Quantizing(0), [np.float32([1]), np.float32([0])], "not positive and finite"),
    "negative": (Quantizing(0), [np.float32([1]), np.float32([-1])], "not positive and finite"),
    "two-axes": (
        Quantizing(0),
        [np.ones((3, 2), np.float32), np.ones(2, np.float32), np.zeros(2, np.uint8)],
        r"2 scales of \[3, 2\]",
    ),
    "float64": (Quantizing(0), [np.float64([1]), np.float64([1])], "float64 to uint8"),
    "fp8-point": (
        Quantizing(0),
        [np.float32([1]), np.float32([1]), np.zeros(1, ml_dtypes.float8_e5m2)],
        "zero point of float8_e5m2",
    ),
    "bool": (Rounding("ties_to_even"), [np.array([True])], "of type bool"),
    "another-type": (Rounding("ties_to_even"), [np.float32([1])], "turned float32 into uint8"),
    "no-float": (Casting("uint8"), [np.int32([1])], "turned int32 into uint8"),
}


@pytest.mark.parametrize(("rule", "operands", "why"), LACKING.values(), ids=LACKING)
def test_tensors_without_a_rule(rule: Rule, operands: list[Array], why: str) -> None:
    got = np.zeros(operands[0].shape, np.uint8)
    with pytest.raises(NoRule, match=why):
        judged(rule, got, *operands)


CASTS = {
    ("float32", "float16"): Casting("float16"),
    ("float64", "float32"): Casting("float32"),
    ("float16", "bfloat16"): Casting("bfloat16"),
    ("bfloat16", "float16"): Casting("float16"),
    ("float16", "float32"): None,
    ("float32", "float32"): None,
    ("int8", "float16"): None,
    ("int32", "int8"): None,
    ("float32", "bool"): None,
    ("bool", "float32"): None,
    ("float32", "int64"): "no rule is known here for a cast from float32 to int64",
    ("int64", "float32"): "no rule is known here for a cast from int64 to float32",
}


@pytest.mark.parametrize(("types", "rule"), CASTS.items(), ids=map("-to-".join, CASTS))
def test_which_casts_round(types: tuple[str, str], rule: Casting | str | None) -> None:
    assert cast_rule(*types, saturate=False) == rule


def test_a_runtime_alone_casts_and_lacks_the_rest() -> None:
    numpy = open_runtime("numpy")
    x = [Tensor.of(np.array([[2.5000001]], np.float32))]
    found, note = alone(node(Casting("bfloat16")), x, numpy)
    assert (found.dtype, found.shape, note) == ("bfloat16", (1, 1), "")
    one = Tensor.of(np.float32([1]))
    with pytest.raises(NotTaken, match="no quantize_linear"):
        alone(node(Quantizing(0)), [*x, one], numpy)
    with pytest.raises(NotTaken, match="no dequantize_linear"):
        alone(node(Dequantizing(0)), [*x, one], numpy)
    with pytest.raises(NotTaken, match="of type bool"):
        alone(node(Rounding("ties_to_even")), [Tensor.of(np.array([True]))], numpy)
