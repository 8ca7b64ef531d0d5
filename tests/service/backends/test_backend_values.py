from __future__ import annotations

import hashlib

import numpy as np
import pytest

from support.cases.backend_calls import run_flat, sample_pair
from tensor_round.conformance.reference import ROUNDINGS, WIDTHS, all_patterns
from tensor_round.digests import DIGESTS
from tensor_round.dtypes import DTYPES
from tensor_round.rounding import Rounding
from tensor_round_service.backends import Backend


def test_the_reference_knows_every_dtype_and_rounding_of_the_contract() -> None:
    assert {d.name for d in DTYPES} == set(WIDTHS)
    assert {str(r) for r in Rounding} == set(ROUNDINGS)


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", WIDTHS)
def test_every_answer_is_the_references(
    backend: Backend, dtype: str, rounding: str, in_place: bool
) -> None:
    """All patterns of 8 and 16 bits; the edges and random patterns of the wider types."""
    patterns, right = sample_pair(dtype, rounding)
    answer = run_flat(backend, dtype, rounding, patterns, in_place=in_place)
    wrong = np.flatnonzero(answer != right)[:5]
    faults = [f"{patterns[i]:#x} -> {answer[i]:#x}, not {right[i]:#x}" for i in wrong]
    assert faults == []


@pytest.mark.parametrize(("dtype", "rounding"), DIGESTS)
def test_whole_tables_have_the_published_digests(
    backend: Backend, dtype: str, rounding: str
) -> None:
    answer = run_flat(backend, dtype, rounding, all_patterns(dtype))
    assert hashlib.sha256(answer.tobytes()).hexdigest() == DIGESTS[dtype, rounding]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_callers_error_state_does_not_reach_in(
    backend: Backend, dtype: str, rounding: str
) -> None:
    """Signalling NaNs raise the FPU's flags on the way; nobody outside may notice."""
    patterns, right = sample_pair(dtype, rounding)
    with np.errstate(all="raise"):
        answer = run_flat(backend, dtype, rounding, patterns)
    np.testing.assert_array_equal(answer, right)
