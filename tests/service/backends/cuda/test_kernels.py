"""The kernels' text, compiled for this CPU and run on every pattern.

The arithmetic is IEEE 754 addition and integers, so that what holds here holds on a GPU;
that its compiler makes the same of the text is for the end of `make test` and for `make gpu-check`.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from support.cases.backend_calls import sample_pair
from support.devices import host_kernels
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cuda.kernels import (
    CARRIER_BYTES,
    ROUND_KERNELS,
    STRIDED_COPY_KERNELS,
    run_size,
)
from tensor_round_verify.reference import FLOATS, ROUNDINGS, Bits

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

#: What a test finds in a target where nothing was written.
STALE = 0xAA


def aligned(nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    memory = np.full(nbytes + CARRIER_BYTES, STALE, np.uint8)
    start = -memory.ctypes.data % CARRIER_BYTES
    return memory[start : start + nbytes]


def run(dtype: str, rounding: str, patterns: Bits, *, flushed: bool, room: int = 0) -> Bits:
    """The kernel's answers, and ``room`` elements of the target behind them."""
    source = aligned(patterns.nbytes)
    source[:] = patterns.view(np.uint8)
    target = aligned(patterns.nbytes + room * patterns.itemsize)
    host_kernels.run(
        ROUND_KERNELS[BY_NAME[dtype], Rounding(rounding)],
        source.ctypes.data,
        source.nbytes,
        target.ctypes.data,
        run_size(source.nbytes),
        flushed=flushed,
    )
    return target.view(patterns.dtype)


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "ieee"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_pattern(dtype: str, rounding: str, flushed: bool) -> None:
    """All of 8 and 16 bits, the edges and many others of 32 and 64; subnormals flushed or not.

    A GPU flushes them, as CuPy compiles; float64 is never flushed there. All come again beside
    other neighbours: no lane of a carrier bears on another.
    """
    count = sample_pair(dtype, rounding)[0].size
    order = np.append(np.arange(count), np.random.default_rng(3).permutation(count))
    patterns, right = (each[order] for each in sample_pair(dtype, rounding))
    if BY_NAME[dtype].is_sub_byte:
        patterns, right = (each[::2] | each[1::2] << 4 for each in (patterns, right))
    answer = run(dtype, rounding, patterns, flushed=flushed and dtype != "float64")
    wrong = np.flatnonzero(answer != right)[:5]
    assert [f"{patterns[i]:#x} -> {answer[i]:#x}, not {right[i]:#x}" for i in wrong] == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_tails_are_rounded_and_nothing_behind_them_is_touched(dtype: str) -> None:
    patterns, right = sample_pair(dtype, "toward_negative")
    room = CARRIER_BYTES // patterns.itemsize
    if BY_NAME[dtype].is_sub_byte:
        patterns, right = (each[::2] | each[1::2] << 4 for each in (patterns, right))
        patterns, right = (np.resize(each, 4 * room) for each in (patterns, right))
    for count in range(3 * room + 1):
        last = slice(patterns.size - count, None)
        answer = run(dtype, "toward_negative", patterns[last], flushed=False, room=room)
        np.testing.assert_array_equal(answer[:count], right[last])
        assert set(answer[count:].tobytes()) == {STALE}


def test_run_has_a_thread_for_each_carrier_and_one_for_the_tail() -> None:
    """More of them would round what is left again and again, at the same time."""
    whole = 3 * CARRIER_BYTES
    sizes = {0: 0, 1: 1, CARRIER_BYTES: 1, whole - 1: 3, whole: 3, whole + 1: 4}
    assert {nbytes: run_size(nbytes) for nbytes in sizes} == sizes


@pytest.mark.parametrize("itemsize", STRIDED_COPY_KERNELS)
def test_no_dimension_is_read_beyond_the_last(itemsize: int) -> None:
    """They end where a page does. Whoever reads the next page crashes."""
    pages = np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.uint8)
    barred = pages.ctypes.data + mmap.PAGESIZE
    none = 0  # of PROT_READ, PROT_WRITE and PROT_EXEC
    done = ctypes.CDLL(None).mprotect(
        ctypes.c_void_p(barred), ctypes.c_size_t(mmap.PAGESIZE), ctypes.c_int(none)
    )
    assert done == 0
    # The size and both strides of four columns, then of three rows: a transposition.
    dims = np.array([[4, 1, 3], [3, 4, 1]], np.int64)
    pages[mmap.PAGESIZE - dims.nbytes : mmap.PAGESIZE] = dims.ravel().view(np.uint8)
    source = np.arange(12, dtype=f"u{itemsize}").reshape(3, 4)
    target = np.empty((4, 3), source.dtype)
    host_kernels.run(
        STRIDED_COPY_KERNELS[itemsize],
        source.ctypes.data,
        barred - dims.nbytes,
        len(dims),
        0,
        target.ctypes.data,
        source.size,
    )
    np.testing.assert_array_equal(target, source.T)


def test_there_is_a_kernel_for_every_float_and_direction_and_for_every_width() -> None:
    assert {(d.name, str(r)) for d, r in ROUND_KERNELS} == {
        (d, r) for d in FLOATS for r in ROUNDINGS
    }
    assert set(STRIDED_COPY_KERNELS) == {1, 2, 4, 8}
    kernels = [*ROUND_KERNELS.values(), *STRIDED_COPY_KERNELS.values()]
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    for nbytes, kernel in STRIDED_COPY_KERNELS.items():
        assert kernel.name.endswith(f"_{8 * nbytes}")
