"""Verifying rounding: a runtime's results for all test patterns, block by block on threads."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Literal, get_args

import numpy as np

from tensor_round.contract.differences.classes import PatternClass, classify

from ..explain import Hypotheses
from ..patterns import blocks, samples
from ..reference import FLOATS, WIDTHS, Bits, is_nan, rounded
from ..runtimes import Runtime
from ..runtimes.runtime import RoundBits
from .results import Example, Verdict, effects
from .tally import Block, Tally

#: The required result for a NaN: the same bits; or the quiet NaN of IEEE 754 if it is signalling;
#: or any NaN.
Nans = Literal["bits", "quiet", "any"]
NANS: tuple[Nans, ...] = get_args(Nans)

#: The order of classes in reports: NaNs last, since numbers matter more to most readers.
_ORDER = sorted(PatternClass, key=lambda kind: kind <= PatternClass.QUIET_NAN)

Judged = tuple[Block, Hypotheses]


class Judges:
    """Threads that round blocks and compare the results, one for each core.

    ``done`` is called with the bytes of each block.
    """

    def __init__(self, runtime: Runtime, nans: Nans, done: Callable[[int], None]) -> None:
        self._runtime = runtime
        self._nans = nans
        self._done = done
        self._count = usable_cores()
        self._pool = ThreadPoolExecutor(self._count, "judge")
        # A runtime for one thread only still rounds while other blocks are compared.
        self._runtime_lock = contextlib.nullcontext() if runtime.concurrent else Lock()

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def verdict(self, dtype: str, rounding: str, every: bool) -> Verdict:
        """The verdict on one dtype and direction; raises :class:`NotTaken`."""
        judged = partial(self._judged, self._runtime.kernel(dtype, rounding), dtype, rounding)
        tally = Tally()
        patterns = blocks(dtype, every=every)
        if every and WIDTHS[dtype] == 32:
            # The hardest patterns first, uncounted: they select the models for the rest.
            _, hypotheses = judged(None, samples(dtype))
        else:
            first = next(patterns)
            block, hypotheses = judged(None, first)
            tally.add(block)
            self._done(first.nbytes)
        left = hypotheses
        for block, survivors in self._in_order(partial(judged, hypotheses), patterns):
            tally.add(block)
            left = left.both(survivors)
        return tally.verdict(
            (dtype, rounding),
            _ORDER,
            left.explanation(),
            lambda _, x, got, want: Example(dtype, x, got, want),
        )

    def _in_order(
        self, judged: Callable[[Bits], Judged], patterns: Iterable[Bits]
    ) -> Iterator[Judged]:
        """Judge blocks on the threads; only a few blocks are in memory at once."""
        waiting: deque[tuple[Future[Judged], int]] = deque()
        for block in patterns:
            waiting.append((self._pool.submit(judged, block), block.nbytes))
            if len(waiting) > self._count:
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: deque[tuple[Future[Judged], int]]) -> Judged:
        job, size = waiting.popleft()
        found = job.result()
        self._done(size)
        return found

    def _judged(
        self,
        kernel: RoundBits,
        dtype: str,
        rounding: str,
        hypotheses: Hypotheses | None,
        bits: Bits,
    ) -> Judged:
        """Judge a block; without ``hypotheses`` it has the hardest patterns of the dtype."""
        with self._runtime_lock:
            got = kernel(bits)
        want = rounded(bits, dtype, rounding)
        got = _forgiven(got, want, dtype, self._nans)
        if hypotheses is None:
            hypotheses = Hypotheses.of(bits, got, want, dtype, rounding)
        else:
            hypotheses = hypotheses.surviving(bits, got, want)
        codes, wrong = classify(bits, dtype, want), np.flatnonzero(got != want)
        x, got, want = bits[wrong], got[wrong], want[wrong]
        return Block(codes, wrong, x, got, want, effects(got, want, dtype)), hypotheses


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forgiven(got: Bits, want: Bits, dtype: str, nans: Nans) -> Bits:
    """The results, with each NaN that ``nans`` allows replaced by the right one."""
    if nans == "bits" or dtype not in FLOATS:
        return got
    may_differ = is_nan(dtype, want) & is_nan(dtype, got)
    if nans == "quiet":
        may_differ &= got == want | want.dtype.type(1 << (FLOATS[dtype].fraction_bits - 1))
    return np.where(may_differ, want, got)
