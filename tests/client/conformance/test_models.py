"""Models of misbehaviour: each names the wrong kernel that is written that way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.cases.wrong_kernels import (
    Array,
    c_round,
    ceil_flushed,
    floor_of_half_added,
    ggml_vulkan,
    half_added,
    int32_in_float32,
    int64_in_float64,
    math_round,
    nans_as,
    right,
    sign_of_zero_lost,
    tflite,
    through,
    through_float32_clamped,
    truncated,
)
from tensor_round.conformance import MODELS, ROUNDINGS, is_nan, rounded, samples, verify
from tensor_round.dtypes import BY_NAME

#: (kernel, dtype, rounding, the names of the models that explain it)
PLANTED: dict[str, tuple[Callable[[Array], Array], str, str, list[str]]] = {
    "trunc-of-half-added": (half_added, "float32", "ties_to_away", ["trunc(x + copysign(0.5, x))"]),
    "trunc-of-half-added-16": (
        *(half_added, "float16", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "trunc-of-half-added-bf16": (
        *(half_added, "bfloat16", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "trunc-of-half-added-e4m3": (
        *(half_added, "float8_e4m3fn", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "floor-of-half-added": (floor_of_half_added, "float32", "ties_to_even", ["floor(x + 0.5)"]),
    "floor-of-half-added-64": (floor_of_half_added, "float64", "ties_to_away", ["floor(x + 0.5)"]),
    "ggml-vulkan": (
        *(ggml_vulkan, "float32", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))", "zero's sign lost by -0.0 alone"],
    ),
    "math-round": (math_round, "float64", "ties_to_even", ["half toward +infinity"]),
    "math-round-16": (math_round, "float16", "ties_to_away", ["half toward +infinity"]),
    "c-round": (c_round, "float32", "ties_to_even", ["half away from zero"]),
    "rint-for-away": (np.rint, "float8_e4m3fn", "ties_to_away", ["half to even"]),
    "no-rounding": (lambda x: x, "float32", "ties_to_even", ["no rounding"]),
    "truncation": (truncated, "float16", "ties_to_even", ["truncation"]),
    "floor-for-trunc": (
        lambda x: right(x, "toward_negative"),
        *("float32", "toward_zero"),
        ["floor"],
    ),
    "ceil-for-trunc": (
        lambda x: right(x, "toward_positive"),
        *("float32", "toward_zero"),
        ["ceil"],
    ),
    "through-float32": (through(np.float32), "float64", "ties_to_even", ["through float32"]),
    "through-float32-clamped": (
        *(through_float32_clamped, "float64", "ties_to_even"),
        ["through float32 clamped"],
    ),
    "through-float16": (through(np.float16), "float32", "ties_to_even", ["through float16"]),
    "through-float16-64": (through(np.float16), "float64", "ties_to_even", ["through float16"]),
    "through-bfloat16": (
        *(through(ml_dtypes.bfloat16), "float32", "ties_to_even"),
        ["through bfloat16"],
    ),
    "flushed": (ceil_flushed, "float32", "toward_positive", ["flush subnormals"]),
    "zeros": (sign_of_zero_lost, "float32", "ties_to_even", ["zero's sign lost"]),
    "tflite": (tflite, "float32", "ties_to_even", ["zero's sign lost by all but -0.0"]),
    "nan-quieted": (nans_as(lambda b: b | 0x200), "float16", "ties_to_even", ["NaN quieted"]),
    "nan-canonical": (
        *(nans_as(lambda b: np.full_like(b, 0x7FFF)), "float16", "ties_to_even"),
        ["NaN canonical (all ones but the sign)"],
    ),
    "nan-canonical-x86": (
        *(nans_as(lambda b: np.full_like(b, 0xFFC00000)), "float32", "ties_to_even"),
        ["NaN canonical (negative, quiet, no payload)"],
    ),
    "nan-canonical-riscv": (
        *(nans_as(lambda b: np.full_like(b, 0x7FC00000)), "float32", "ties_to_even"),
        ["NaN canonical (quiet, no payload)"],
    ),
    "nan-canonical-torch": (
        *(nans_as(lambda b: np.full_like(b, 0xFFFF)), "bfloat16", "ties_to_even"),
        ["NaN canonical (all ones)"],
    ),
    "payload-lost": (
        *(nans_as(lambda b: (b & 0x8000) | 0x7E00), "float16", "ties_to_even"),
        ["payload lost"],
    ),
    "nan-sign-lost": (
        nans_as(lambda b: b & 0x7FFF),
        "float16",
        "ties_to_even",
        ["NaN's sign lost"],
    ),
    "nan-quieted-and-sign-lost": (
        *(nans_as(lambda b: (b | 0x200) & 0x7FFF), "float16", "ties_to_even"),
        ["NaN quieted", "NaN's sign lost"],
    ),
    "payload-cut": (
        *(nans_as(lambda b: (b | 1 << 51) >> 29 << 29), "float64", "ties_to_even"),
        ["payload cut to float32's"],
    ),
    "int64-in-float64": (int64_in_float64, "int64", "ties_to_even", ["integers through float64"]),
    "int32-in-float32": (int32_in_float32, "int32", "ties_to_even", ["integers through float32"]),
}


@pytest.mark.parametrize(("kernel", "dtype", "rounding", "names"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_named(
    kernel: Callable[[Array], Array], dtype: str, rounding: str, names: list[str]
) -> None:
    (verdict,) = verify(kernel, dtypes=[dtype], roundings=[rounding]).verdicts
    assert verdict.wrong > 0
    assert verdict.explanation.complete
    assert [model.name for model in verdict.explanation.models] == names
    assert all(name in str(verdict) for name in names)


def test_every_model_is_planted() -> None:
    planted = {name for *_, names in PLANTED.values() for name in names}
    # Only its clamped infinities tell it from "through float16", as float32's do above.
    assert {model.name for model in MODELS} - planted == {"through float16 clamped"}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", BY_NAME)
def test_a_right_kernel_passes(dtype: str, rounding: str) -> None:
    report = verify(lambda x: right(x, rounding), dtypes=[dtype], roundings=[rounding])
    (verdict,) = report.verdicts
    assert report.right
    assert (verdict.wrong, verdict.classes) == (0, ())
    assert verdict.explanation.models == ()
    assert verdict.explanation.complete


def test_the_known_number_of_faults_of_half_added() -> None:
    """1024 odd integers from 1024 to 2048 of both signs, and the number next below 0.5."""
    (verdict,) = verify(half_added, dtypes=["float16"], roundings=["ties_to_away"]).verdicts
    assert verdict.wrong == 1026
    assert {count.pattern_class.label: (count.wrong, count.tried) for count in verdict.classes} == {
        "next_below_a_tie": (2, 1024),
        "last_odd_integer": (1024, 1024),
    }
    assert str(verdict) == (
        "float16 ties_to_away: 1,026 of 65,536 wrong: 2 of 1,024 numbers next below a tie "
        "(off by one), all 1,024 odd integers from 2^10 to 2^11 (off by one); "
        "this is trunc(x + copysign(0.5, x))"
    )


def test_one_wrong_result_is_explained_by_no_model() -> None:
    def kernel(x: Array) -> Array:
        y = right(x, "ties_to_even")
        y[x == 2.5] = 3
        return y

    (verdict,) = verify(kernel, dtypes=["float16"]).verdicts
    assert (verdict.wrong, verdict.explanation.complete) == (1, False)
    assert str(verdict).endswith("1 of 2,048 exact ties (off by one); no named model explains it")


def test_numbers_may_be_explained_and_nans_not() -> None:
    def kernel(x: Array) -> Array:
        return np.where(np.isnan(x), x.dtype.type(0), half_added(x))

    (verdict,) = verify(kernel, dtypes=["float16"], roundings=["ties_to_away"]).verdicts
    assert not verdict.explanation.complete
    assert str(verdict).endswith(
        "for numbers this is trunc(x + copysign(0.5, x)); no named model explains the NaNs"
    )


#: By what a kernel makes of NaNs, how many of float16's 2,046 are wrong for bits, quiet, any.
NANS: dict[str, tuple[Callable[[Array], Array], list[int]]] = {
    "kept": (lambda b: b, [0, 0, 0]),
    "quieted": (lambda b: b | 0x200, [1022, 0, 0]),
    "payload-lost": (lambda b: (b & 0x8000) | 0x7E00, [2044, 2044, 0]),
    "infinity": (lambda b: np.full_like(b, 0x7C00), [2046, 2046, 2046]),
}


@pytest.mark.parametrize(("change", "wrong"), NANS.values(), ids=NANS)
def test_nans_have_to_come_back_as_asked_for(
    change: Callable[[Array], Array], wrong: list[int]
) -> None:
    found = [
        verify(nans_as(change), dtypes=["float16"], nans=nans).verdicts[0].wrong
        for nans in ("bits", "quiet", "any")
    ]
    assert found == wrong


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_models_keep_what_is_not_theirs(model: Any) -> None:
    """Models of numbers keep NaNs, those of NaNs keep numbers; each says where it was met."""
    dtype, rounding = next(
        pair
        for pair in product(["float16", "float32", "float64", "int64"], ROUNDINGS)
        if model.fits(*pair)
    )
    bits = samples(dtype, random_count=100)
    kernel = model.around(lambda b, d, r: rounded(b, d, r))
    got, want = kernel(bits, dtype, rounding), rounded(bits, dtype, rounding)
    theirs = is_nan(dtype, bits) == (model.aspect == "nans")
    np.testing.assert_array_equal(got[~theirs], want[~theirs])
    assert model.about
    assert model.source
