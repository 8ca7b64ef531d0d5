"""Every backend: its results, whoever calls at once, and layouts against index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.cases.array_cases import on_wire
from support.cases.backend_calls import expected, run, run_flat, sample_pair
from support.cases.every import each, every, meetings
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout, packed_strides
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Backend
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, ROUNDINGS, WIDTHS


def test_the_reference_knows_every_dtype_and_rounding_of_the_contract() -> None:
    assert {d.name for d in ROUNDABLE} == set(WIDTHS)
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
def test_calls_from_several_threads_do_not_meet(sharing_backend: Backend) -> None:
    """Sizes on both sides of the point where a backend shares one call among its threads."""
    jobs = [*meetings((*FLOATS, "int16"), ROUNDINGS, (1, 5000, 2_200_001), (False, True))]

    def agrees(job: tuple[str, str, int, bool]) -> bool:
        dtype, rounding, count, in_place = job
        patterns, right = sample_pair(dtype, rounding)
        answer = run_flat(
            sharing_backend, dtype, rounding, np.resize(patterns, count), in_place=in_place
        )
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


NHWC = (60, 1, 15, 3)  # the strides of an NCHW shape (2, 3, 4, 5) whose channels lie together

# shape, input strides, output strides (None: packed), bytes beyond the least of each
CASES: dict[str, tuple[Sequence[int], Sequence[int] | None, Sequence[int] | None, int, int]] = {
    "scalar": ((), None, None, 0, 0),
    "empty": ((3, 0, 2), None, None, 0, 0),
    "empty-with-padding": ((0,), None, None, 5, 7),
    "packed": ((2, 3, 4, 5), None, None, 0, 0),
    "padding-in": ((2, 3), None, None, 7, 0),
    "padding-out": ((2, 3), None, None, 0, 7),
    "padding-of-an-odd-byte-both": ((5,), None, None, 1, 1),
    "nhwc-both": ((2, 3, 4, 5), NHWC, NHWC, 0, 0),
    "nhwc-in": ((2, 3, 4, 5), NHWC, None, 0, 0),
    "nhwc-out": ((2, 3, 4, 5), None, NHWC, 0, 0),
    "rows-with-gaps-both": ((3, 4), (7, 1), (7, 1), 0, 0),
    "rows-with-gaps-both-and-padding": ((3, 4), (7, 1), (7, 1), 3, 3),
    "every-second-out": ((9,), None, (2,), 0, 0),
    "broadcast-scalar": ((3, 4, 5), (0, 0, 0), None, 0, 0),
    "broadcast-rows": ((3, 4), (0, 1), None, 0, 0),
    "overlapping-windows-in": ((6, 3), (1, 1), None, 0, 0),
    "size-1-with-an-idle-stride": ((1, 4, 1), (1 << 40, 1, 1 << 50), (9, 1, 0), 0, 0),
    "rank-32": ((1,) * 29 + (2, 3, 2), None, None, 0, 0),
    "transposed": ((40, 30), (1, 40), None, 0, 0),
}


def make_call(
    dtype: str,
    rounding: str,
    shape: Sequence[int],
    strides: tuple[Sequence[int] | None, Sequence[int] | None],
    extra: tuple[int, int],
) -> Call:
    layouts = []
    for own, bytes_beyond in zip(strides, extra, strict=True):
        least = Layout.of(BY_NAME[dtype], shape, own)
        layouts.append(
            Layout.of(BY_NAME[dtype], shape, own, byte_length=least.byte_length + bytes_beyond)
        )
    return Call(RoundToIntegral(Rounding(rounding)), layouts[0], layouts[1], layouts[0].byte_length)


def payload(call: Call, seed: int) -> bytes:
    """Hard patterns in random order, and bytes that must not leak where no element lies."""
    dtype, length = call.input.dtype, call.input.byte_length
    patterns = samples(dtype.name, 2000)
    drawn = np.random.default_rng(seed).choice(patterns, dtype.count(length) + 1)
    return on_wire(drawn.view(dtype.numpy))[:length]


def assert_modelled(backend: Backend, call: Call, source: bytes) -> None:
    right = expected(call, source)
    assert run(backend, call, source) == right
    if call.is_in_place:
        assert run(backend, call, source, in_place=True) == right


@pytest.mark.parametrize("case", CASES)
def test_layouts(backend: Backend, case: str) -> None:
    shape, strides_in, strides_out, extra_in, extra_out = CASES[case]

    def check(dtype: str, rounding: str) -> None:
        call = make_call(dtype, rounding, shape, (strides_in, strides_out), (extra_in, extra_out))
        assert_modelled(backend, call, payload(call, seed=len(shape)))

    packed = ("float4_e2m1fn", "int4") if strides_in is strides_out is None else ()
    dtypes = ("float8_e5m2", "bfloat16", "float32", "float64", "int8", "int64", *packed)
    turns = cycle(("ties_to_even", "ties_to_away", "toward_positive"))
    each(check, zip(dtypes, islice(turns, [*CASES].index(case), None), strict=False))


@cache
def transposition() -> tuple[Call, bytes, bytes]:
    """Large enough that the threads of a backend share the work."""
    rows, columns = 700, 600
    call = make_call(
        "float32", "ties_to_even", (rows, columns), ((1, rows), (columns + 3, 1)), (0, 5)
    )
    source = payload(call, seed=0)
    return call, source, expected(call, source)


def test_a_large_transposition_with_gaps(sharing_backend: Backend) -> None:
    call, source, right = transposition()
    assert run(sharing_backend, call, source) == right


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Any input layout, any output layout without overlap; often both the same."""
    dtype, rounding = draw(st.sampled_from(list(WIDTHS))), draw(st.sampled_from(list(Rounding)))
    shape = draw(st.lists(st.integers(0, 4), max_size=5))
    strides_in: Sequence[int] | None = draw(
        st.none() | st.lists(st.integers(0, 40), min_size=len(shape), max_size=len(shape))
    )
    strides_out: Sequence[int] | None = draw(st.none() | spaced_strides(shape))
    extra_in, extra_out = draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    if draw(st.booleans()):
        strides_in, extra_in = strides_out, extra_out
    if BY_NAME[dtype].is_sub_byte:
        strides_in = strides_out = None
    return make_call(dtype, rounding, shape, (strides_in, strides_out), (extra_in, extra_out))


@st.composite
def spaced_strides(draw: st.DrawFn, shape: Sequence[int]) -> list[int]:
    """The dimensions in any order, each with a gap of any size before the next."""
    order = draw(st.permutations(range(len(shape))))
    reached = packed_strides([*(shape[i] for i in order), 1])[0] if 0 in shape else 1
    strides = [0] * len(shape)
    for dimension in order:
        strides[dimension] = reached + draw(st.sampled_from([0, 0, 0, 1, 3]))
        reached = strides[dimension] * max(shape[dimension], 1)
    return strides


@given(call=calls(), seed=st.integers(0, 1000))
@settings(
    max_examples=100,  # for each backend
    # The backend is the same object for every example, and is meant to be.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_layout(backend: Backend, call: Call, seed: int) -> None:
    assert call.output.is_free_of_overlap
    assert_modelled(backend, call, payload(call, seed))
