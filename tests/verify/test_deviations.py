"""Wrong kernels, and the deviations that must name them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

from support.cases.wrong_kernels import PLANTED, PLANTED_IDS, Array, half_added, nans_as, right
from tensor_round.contract.dtypes import ROUNDABLE, DType
from tensor_round_verify import DEVIATIONS, ROUNDINGS, is_nan, rounded, samples, verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kernel", "dtype", "rounding", "names"),
    PLANTED,
    ids=PLANTED_IDS,
)
def test_a_planted_fault_is_named(
    kernel: Callable[[Array], Array], dtype: str, rounding: str, names: list[str]
) -> None:
    report = verify(kernel, dtypes=[dtype], roundings=[rounding], nans="bits")
    (verdict,) = report.verdicts
    assert verdict.wrong > 0
    assert verdict.calls == ()
    assert verdict.explanation.complete
    assert [deviation.name for deviation in verdict.explanation.deviations] == names
    assert all(name in str(verdict) for name in names)


def test_every_deviation_is_planted() -> None:
    planted = {name for *_, names in PLANTED for name in names}
    # Only its clamped infinities tell it from "through float16", as float32's do above.
    assert {deviation.name for deviation in DEVIATIONS} - planted == {"through float16 clamped"}


@pytest.mark.parametrize(("dtype", "rounding"), [*zip(ROUNDABLE, cycle(ROUNDINGS), strict=False)])
def test_a_right_kernel_passes(dtype: DType, rounding: str) -> None:
    report = verify(lambda x: right(x, rounding), dtypes=[dtype.name], roundings=[rounding])
    (verdict,) = report.verdicts
    assert report.right
    assert (verdict.wrong, verdict.classes) == (0, ())
    assert (verdict.calls, verdict.refused) == ((), ())
    assert verdict.explanation.deviations == ()
    assert verdict.explanation.complete


def test_the_known_number_of_faults_of_half_added() -> None:
    """1024 odd integers from 1024 to 2048 of both signs, and the number next below 0.5."""
    (verdict,) = verify(half_added, dtypes=["float16"], roundings=["ties_to_away"]).verdicts
    assert verdict.wrong == 1026
    assert {count.pattern_class.label: (count.wrong, count.tried) for count in verdict.classes} == {
        "next_below_a_tie": (2, 1024),
        "last_odd_integer": (1024, 1024),
    }


def test_numbers_may_be_explained_and_nans_not() -> None:
    def kernel(x: Array) -> Array:
        return np.where(np.isnan(x), x.dtype.type(1), half_added(x))

    (verdict,) = verify(kernel, dtypes=["float16"], roundings=["ties_to_away"]).verdicts
    assert not verdict.explanation.complete
    assert str(verdict).endswith(
        "for numbers this is trunc(x + copysign(0.5, x)); no named deviation explains the NaNs"
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


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
def test_deviations_keep_foreign_parts(deviation: Any) -> None:
    """Deviations of numbers keep NaNs, those of NaNs keep numbers; each says where it was met."""
    dtype, rounding = next(
        pair
        for pair in product(["float16", "float32", "float64", "int64"], ROUNDINGS)
        if deviation.fits(*pair)
    )
    bits = samples(dtype, random_count=100)
    kernel = deviation.around(lambda b, d, r: rounded(b, d, r))
    got, want = kernel(bits, dtype, rounding), rounded(bits, dtype, rounding)
    theirs = is_nan(dtype, bits) == (deviation.aspect == "nans")
    np.testing.assert_array_equal(got[~theirs], want[~theirs])
    assert deviation.about
    assert deviation.source
