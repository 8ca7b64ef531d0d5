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

from ..explain import Explanation, Hypotheses
from ..patterns import blocks, samples
from ..reference import FLOATS, WIDTHS, Bits, differs, is_nan, rounded
from ..report import CallFault, Example, IndexOf, Verdict, effects
from ..runtimes import Adapter
from ..runtimes.runtime import RoundBits
from .array_forms import ArrayForms, Findings
from .nans import NanBits, nan_bits
from .repeatability import Moved, confirmed
from .sample_arrays import Pool
from .tally import Block, Tally

#: The required result for a NaN: the same bits; or the quiet NaN of IEEE 754 if it is signalling;
#: or any NaN. By default any NaN is right, and other bits are reported.
Nans = Literal["bits", "quiet", "any"]
NANS: tuple[Nans, ...] = get_args(Nans)

#: The order of classes in reports: NaNs last, since numbers matter more to most readers.
ORDER = sorted(PatternClass, key=lambda kind: kind <= PatternClass.QUIET_NAN)
_NAN_KINDS = [kind for kind in PatternClass if kind <= PatternClass.QUIET_NAN]


@dataclass(frozen=True, slots=True)
class Compared:
    """The results for a block beside the right ones, and what may explain them."""

    block: Block
    hypotheses: Hypotheses
    nans: NanBits

    @classmethod
    def of(
        cls, bits: Bits, got: Bits, want: Bits, nans: Nans | None, hypotheses: Hypotheses
    ) -> Compared:
        """The results ``got``, of which those left of ``hypotheses`` are kept."""
        dtype = hypotheses.dtype
        judged = forgiven(got, want, dtype, nans)
        # NaNs that are only told are explained too.
        left = hypotheses.surviving(bits, got if nans is None else judged, want)
        codes, wrong = classify(bits, dtype, want), np.flatnonzero(judged != want)
        x, y, z = bits[wrong], judged[wrong], want[wrong]
        block = Block(codes, wrong, x, y, z, effects(y, z, dtype))
        return cls(block, left, nan_bits(got, want, dtype))


class Sum:
    """The sum of the blocks of one dtype and direction, which are added in order."""

    def __init__(self, hypotheses: Hypotheses, nans: Nans | None) -> None:
        self._left = hypotheses
        self._asked = nans
        self._tally = Tally()
        self._nans = NanBits(0, 0, quiet=True)

    def add(self, found: Compared) -> None:
        """Add the next block."""
        self._tally.add(found.block)
        self._nans += found.nans
        self._left = self._left.both(found.hypotheses)

    def verdict(self, index: IndexOf | None = None) -> Verdict:
        """The verdict; ``index`` tells where in a tensor an element is."""
        dtype, explanation, told = self._left.dtype, self._left.explanation(), None
        if self._asked is None:
            # Other bits are no fault; what is no NaN at all is, and is explained as one.
            told = replace(self._nans, models=explanation.nans)
            is_wrong = self._tally.wrong(_NAN_KINDS)
            explanation = Explanation(explanation.numbers, told.models if is_wrong else ())

        def example(place: int, x: int, got: int, want: int) -> Example:
            return Example(dtype, x, got, want, index=index and index(place))

        name = dtype, self._left.rounding
        return replace(self._tally.verdict(name, ORDER, explanation, example), nans=told)


@dataclass(frozen=True, slots=True)
class Judged:
    """The results for a block: ``got`` as they are wherever the patterns are in an array.

    ``first_got`` are those of the first call. ``moved`` is the first that was of its place alone.
    """

    bits: Bits
    first_got: Bits
    got: Bits
    compared: Compared
    moved: Moved | None


class Judges:
    """Threads that round blocks and compare the results, one for each core.

    ``done`` is called with the bytes of each block.
    """

    def __init__(self, runtime: Adapter, nans: Nans | None, done: Callable[[int], None]) -> None:
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
        unlocked = self._runtime.kernel(dtype, rounding)
        judged = partial(self._judged, self._locked(unlocked), dtype, rounding)
        patterns = blocks(dtype, every=every)
        first = samples(dtype) if every and WIDTHS[dtype] == 32 else next(patterns)
        head = judged(None, first)
        hypotheses, moved = head.compared.hypotheses, head.moved
        total = Sum(hypotheses, self._nans)
        # With every pattern the hardest come first, uncounted: they select the models for the rest.
        if not (every and WIDTHS[dtype] == 32):
            total.add(head.compared)
            self._done(first.nbytes)
        for found in self._in_order(partial(judged, hypotheses), patterns):
            total.add(found.compared)
            moved = moved or found.moved
        forms = self._array_forms(unlocked, dtype, rounding, head)
        if moved and not forms.faults:
            forms = replace(forms, faults=(_of_place(moved, dtype),))
        return replace(total.verdict(), calls=forms.faults, refused=forms.refused)

    def _locked(self, kernel: RoundBits) -> RoundBits:
        """The kernel, for one thread at a time if need be; its results stay as they are."""

        def locked(bits: Bits) -> Bits:
            with self._runtime_lock:
                return kernel(bits).copy()

        return locked

    def _array_forms(self, kernel: RoundBits, dtype: str, rounding: str, head: Judged) -> Findings:
        """What results depend on beside the pattern, of patterns whose results are known."""
        again = kernel(head.bits)
        places = np.flatnonzero(differs(again, head.first_got, dtype))
        if places.size:
            told = f"differs from call to call: {places.size:,} of {head.bits.size:,} results"
            x, got, want = (int(p[places[0]]) for p in (head.bits, again, head.first_got))
            return Findings((CallFault(told, Example(dtype, x, got, want)),))
        pool = Pool.of(head.bits, head.got, dtype)
        arrays = self._runtime.arrays(dtype, rounding)
        return ArrayForms(arrays, pool, dtype, partial(differs, dtype=dtype)).findings()

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
        first_got, want = kernel(bits), rounded(bits, dtype, rounding)
        got, moved = confirmed(kernel, bits, first_got, want, partial(differs, dtype=dtype))
        if hypotheses is None:
            told = got if self._nans is None else forgiven(got, want, dtype, self._nans)
            hypotheses = Hypotheses.of(bits, told, want, dtype, rounding)
        return Judged(
            bits, first_got, got, Compared.of(bits, got, want, self._nans, hypotheses), moved
        )


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _of_place(moved: Moved, dtype: str) -> CallFault:
    """The fault of a result that another place or array does not give."""
    cause = (
        f"depends on the position: element {moved.place:,} of {moved.length:,} differs elsewhere"
    )
    return CallFault(cause, Example(dtype, moved.x, moved.got, moved.elsewhere))


def forgiven(got: Bits, want: Bits, dtype: str, nans: Nans | None) -> Bits:
    """The results, with each NaN that ``nans`` allows replaced by the right one."""
    if nans == "bits" or dtype not in FLOATS:
        return got
    may_differ = is_nan(dtype, want) & is_nan(dtype, got)
    if nans == "quiet":
        may_differ &= got == want | want.dtype.type(1 << (FLOATS[dtype].fraction_bits - 1))
    return np.where(may_differ, want, got)
