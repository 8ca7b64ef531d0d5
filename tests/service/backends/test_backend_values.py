"""Every result on every backend: the reference's, whoever calls at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from support.cases.backend_calls import run_flat, sample_pair
from support.cases.every import every
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Backend
from tensor_round_verify.reference import FLOATS, ROUNDINGS, WIDTHS


def test_the_reference_knows_every_dtype_and_rounding_of_the_contract() -> None:
    assert {d.name for d in DTYPES} == set(WIDTHS)
    assert {str(r) for r in Rounding} == set(ROUNDINGS)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_every_result_is_the_references(backend: Backend, dtype: str) -> None:
    """All patterns of 8 and 16 bits; the edges and random patterns of the wider types.

    Signalling NaNs raise the FPU's flags on the way; the caller's error state does not reach in.
    """

    def check(rounding: str, in_place: bool) -> None:
        patterns, right = sample_pair(dtype, rounding)
        with np.errstate(all="raise"):
            found = run_flat(backend, dtype, rounding, patterns, in_place=in_place)
        wrong = np.flatnonzero(found != right)[:5]
        faults = [f"{patterns[i]:#x} -> {found[i]:#x}, not {right[i]:#x}" for i in wrong]
        assert faults == []

    every(check, ROUNDINGS, (False, True))


@pytest.mark.slow
def test_calls_from_several_threads_do_not_meet(backend: Backend) -> None:
    """Sizes on both sides of the point where a backend shares one call among its threads."""
    jobs = [
        (dtype, rounding, count, in_place)
        for dtype in (*FLOATS, "int16")
        for rounding in ROUNDINGS
        for count in (1, 5000, 2_200_001)
        for in_place in (False, True)
    ]

    def agrees(job: tuple[str, str, int, bool]) -> bool:
        dtype, rounding, count, in_place = job
        patterns, right = sample_pair(dtype, rounding)
        answer = run_flat(backend, dtype, rounding, np.resize(patterns, count), in_place=in_place)
        return np.array_equal(answer, np.resize(right, count))

    with ThreadPoolExecutor(6) as callers:
        outcomes = list(callers.map(agrees, jobs))
    assert [job for job, right in zip(jobs, outcomes, strict=True) if not right] == []


def test_buffers_have_the_size_asked_for_and_large_ones_start_on_a_page(backend: Backend) -> None:
    for nbytes in (0, 1, 63, 4096, 4097, 3 << 20):
        memory = backend.allocate(nbytes)
        assert memory.dtype == np.uint8
        assert memory.shape == (nbytes,)
        assert memory.flags.c_contiguous
        assert memory.flags.writeable
        assert nbytes < 1 << 20 or memory.ctypes.data % 4096 == 0
