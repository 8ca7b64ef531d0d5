"""Verifying rounding: a runtime's results for all test patterns, block by block on threads."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Literal, get_args

import numpy as np

from tensor_round.contract.differences.classes import PatternClass, classify

from ..deviations import Combination, combinations, kernel_of, nan_combinations
from ..explain import Explanation, Rule, Search
from ..patterns import blocks, samples
from ..reference import BLOCK, FLOATS, WIDTHS, Bits, differs, is_nan, rounded
from ..report import Example, IndexOf, Pair, Verdict, effects
from ..runtimes.runtime import Adapter, RoundBits
from .array_forms import Effort, Subject
from .nans import NanBits, nan_bits
from .repeatability import Tried
from .tally import Block, Tally, from_one

#: The required result for a NaN: the same bits; or the quiet NaN of IEEE 754 if it is signalling;
#: or any NaN. By default any NaN is right, and other bits are reported.
Nans = Literal["bits", "quiet", "any"]
NANS: tuple[Nans, ...] = get_args(Nans)

#: The order of classes in reports: NaNs last, since numbers matter more to most readers.
ORDER = sorted(PatternClass, key=lambda kind: kind <= PatternClass.QUIET_NAN)
_NAN_KINDS = [kind for kind in PatternClass if kind <= PatternClass.QUIET_NAN]


def search_for(dtype: str, rounding: str) -> Search:
    """The search for the deviations of a dtype and direction."""

    def rule(some: Combination, *, of_nans: bool) -> Rule:
        kernel = kernel_of(some)
        return Rule(some, lambda bits: kernel(bits, dtype, rounding), of_nans)

    numbers = (rule(some, of_nans=False) for some in combinations(dtype, rounding))
    nans = (rule(some, of_nans=True) for some in nan_combinations(dtype, rounding))
    return Search([*numbers, *nans], np.not_equal)


@dataclass(frozen=True, slots=True)
class Compared:
    """The results for a block beside the right ones."""

    block: Block
    nans: NanBits

    @classmethod
    def of(
        cls,
        bits: Bits,
        got: Bits,
        want: Bits,
        dtype: str,
        nans: Nans | None,
        *,
        ordered: bool = False,
    ) -> Compared:
        """The results ``got``; the order of a tensor's elements counts."""
        judged = forgiven(got, want, dtype, nans)
        codes, wrong = classify(bits, dtype, want), np.flatnonzero(judged != want)
        x, y, z = bits[wrong], judged[wrong], want[wrong]
        distances = None if ordered else from_one(x, dtype)
        block = Block(codes, wrong, x, y, z, effects(y, z, dtype), distances)
        return cls(block, nan_bits(got, want, dtype))


class Sum:
    """The sum of the blocks of one dtype and direction, which are added in order."""

    def __init__(self, pair: Pair, nans: Nans | None, search: Search) -> None:
        self._pair = pair
        self._asked = nans
        self._search = search
        self._tally = Tally()
        self._nans = NanBits(0, 0, quiet=True)

    def add(self, found: Compared) -> None:
        """Add the next block."""
        self._tally.add(found.block)
        self._nans += found.nans

    def verdict(self, index: IndexOf | None = None) -> Verdict:
        """The verdict; ``index`` tells where in a tensor an element is."""
        explanation, told = self._search.explanation(), None
        if self._asked is None:
            # Other bits are no fault; what is no NaN at all is, and is explained as one.
            told = replace(self._nans, deviations=explanation.nans)
            is_wrong = self._tally.wrong(_NAN_KINDS)
            explanation = Explanation(explanation.numbers, told.deviations if is_wrong else ())

        def example(place: int, x: int, got: int, want: int) -> Example:
            return Example(self._pair[0], x, got, want, index=index and index(place))

        return replace(self._tally.verdict(self._pair, ORDER, explanation, example), nans=told)


def tensor_verdict(bits: Bits, got: Bits, pair: Pair, nans: Nans | None, index: IndexOf) -> Verdict:
    """The verdict on the results for a tensor's elements."""
    dtype, rounding = pair
    want = rounded(bits, dtype, rounding)
    search = search_for(dtype, rounding)
    search.add(bits.__getitem__, explainable(got, want, dtype, nans), is_nan(dtype, bits))
    total = Sum(pair, nans, search)
    for start in range(0, bits.size, BLOCK):
        block = slice(start, start + BLOCK)
        part = bits[block], got[block], want[block]
        total.add(Compared.of(*part, dtype, nans, ordered=True))
    return total.verdict(index)


@dataclass(frozen=True, slots=True)
class Judged:
    """The results for a block, which were tried, and compared with the right ones."""

    tried: Tried
    compared: Compared


class Judges:
    """Threads that round blocks and compare the results, one for each core.

    ``done`` is called with the bytes of each block.
    """

    def __init__(
        self, runtime: Adapter, nans: Nans | None, effort: Effort, done: Callable[[int], None]
    ) -> None:
        self._runtime = runtime
        self._nans = nans
        self._effort = effort
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
        """The verdict on one dtype and direction; raises :class:`NotSupported`."""
        unlocked = self._runtime.kernel(dtype, rounding)
        search = search_for(dtype, rounding)
        judged = partial(self._judged, self._locked(unlocked), dtype, rounding, search)
        patterns = blocks(dtype, every=every)
        first = samples(dtype) if every and WIDTHS[dtype] == 32 else next(patterns)
        head = judged(first)
        tried, total = head.tried, Sum((dtype, rounding), self._nans, search)
        # With every pattern the hardest come first, uncounted: they select the rules for the rest.
        if not (every and WIDTHS[dtype] == 32):
            total.add(head.compared)
            self._done(first.nbytes)
        for found in self._in_order(judged, patterns):
            total.add(found.compared)
            tried = replace(tried, moved=tried.moved or found.tried.moved)
        subject = Subject.of(unlocked.arrays, dtype, dtype)
        calls = subject.findings(unlocked, tried, self._effort)
        return calls.added_to(total.verdict())

    def _locked(self, kernel: RoundBits) -> Callable[[Bits], Bits]:
        """The kernel, for one thread at a time if need be; its results stay as they are."""

        def locked(bits: Bits) -> Bits:
            with self._runtime_lock:
                return kernel(bits).copy()

        return locked

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
        kernel: Callable[[Bits], Bits],
        dtype: str,
        rounding: str,
        search: Search,
        bits: Bits,
    ) -> Judged:
        """Judge a block; the first of a search has the hardest patterns of the dtype."""
        want = rounded(bits, dtype, rounding)
        tried = Tried.of(kernel, bits, want, partial(differs, dtype=dtype))
        told = explainable(tried.got, want, dtype, self._nans)
        search.add(bits.__getitem__, told, is_nan(dtype, bits))
        return Judged(tried, Compared.of(bits, tried.got, want, dtype, self._nans))


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def forgiven(got: Bits, want: Bits, dtype: str, nans: Nans | None) -> Bits:
    """The results, with each NaN that ``nans`` allows replaced by the right one."""
    if nans == "bits" or dtype not in FLOATS:
        return got
    may_differ = is_nan(dtype, want) & is_nan(dtype, got)
    if nans == "quiet":
        may_differ &= got == want | want.dtype.type(1 << (FLOATS[dtype].fraction_bits - 1))
    return np.where(may_differ, want, got)


def explainable(got: Bits, want: Bits, dtype: str, nans: Nans | None) -> Bits:
    """The results that are searched for an explanation: also NaNs that are only told."""
    return got if nans is None else forgiven(got, want, dtype, nans)
