from __future__ import annotations

import hashlib

import numpy as np
import pytest

from support.cases.backend_calls import run_flat, sample_pair
from support.cases.every import every
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Backend
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, all_patterns


def test_the_reference_knows_every_dtype_and_rounding_of_the_contract() -> None:
    assert {d.name for d in DTYPES} == set(WIDTHS)
    assert {str(r) for r in Rounding} == set(ROUNDINGS)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_every_result_is_the_references(backend: Backend, dtype: str) -> None:
    """All patterns of 8 and 16 bits; the edges and random patterns of the wider types."""

    def check(rounding: str, in_place: bool) -> None:
        patterns, right = sample_pair(dtype, rounding)
        found = run_flat(backend, dtype, rounding, patterns, in_place=in_place)
        wrong = np.flatnonzero(found != right)[:5]
        faults = [f"{patterns[i]:#x} -> {found[i]:#x}, not {right[i]:#x}" for i in wrong]
        assert faults == []

    every(check, ROUNDINGS, (False, True))


def test_whole_tables_have_the_published_digests(backend: Backend) -> None:
    def check(published: tuple[str, str]) -> None:
        dtype, rounding = published
        found = run_flat(backend, dtype, rounding, all_patterns(dtype))
        assert hashlib.sha256(found.tobytes()).hexdigest() == DIGESTS[dtype, rounding]

    every(check, DIGESTS)


def test_the_callers_error_state_does_not_reach_in(backend: Backend) -> None:
    """Signalling NaNs raise the FPU's flags on the way; nobody outside may notice."""

    def check(dtype: str, rounding: str) -> None:
        patterns, right = sample_pair(dtype, rounding)
        with np.errstate(all="raise"):
            found = run_flat(backend, dtype, rounding, patterns)
        np.testing.assert_array_equal(found, right)

    every(check, ("float16", "float32", "float64"), ROUNDINGS)
