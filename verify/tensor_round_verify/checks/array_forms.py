"""Whether results depend on anything but the operand: on the call, the array, or its memory.

The standard is the runtime itself: the results that it has for each operand wherever it is. So
nothing is found here that is wrong with a pattern, and everything that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..explain import Differs, Explanation
from ..reference import Bits, differs
from ..report import CallFault, Example, Verdict
from ..runtimes.forms import Arrays, Form, Values
from ..runtimes.runtime import TimedOut, patterns
from .positions import Wrong, cause_of_lengths, cause_of_starts
from .repeatability import Kernel, Tried
from .sample_arrays import FEW_LENGTHS, LENGTH, LENGTHS, POOL, STARTS, Elements, Pool, Trial, Trials

#: Calls with the same array, unless more are asked for, and threads that call at once.
REPEATS, THREADS = 3, 4
#: Arrays that are given again after others were wrong.
CONTROLS = 3
#: Elements of the largest array of blocks, and of one that is also drawn from all operands.
MOST = 1 << 17
#: Lengths that are tried if they are asked for: those that float32 cannot count, and those whose
#: bytes 31 and 32 bits cannot count.
LARGE_ELEMENTS, LARGE_BYTES = (1 << 24) + 19, ((1 << 31) + 76, (1 << 32) + 76)
#: An example of a wrong result: of an operand, the result and the known one.
MakeExample = Callable[[int, int, int], Example]


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: faults, and the forms of arrays that the runtime refuses, with reasons."""

    faults: tuple[CallFault, ...] = ()
    refused: tuple[str, ...] = ()
    #: Whether the same call gives other results each time.
    unsteady: bool = False

    def added_to(self, verdict: Verdict) -> Verdict:
        """The verdict with these findings; unsteady results cannot be judged by operands."""
        if self.unsteady:
            nothing = Explanation((), ())
            verdict = replace(verdict, wrong=0, classes=(), explanation=nothing, unsteady=True)
        return replace(
            verdict,
            calls=(*verdict.calls, *self.faults),
            refused=(*verdict.refused, *self.refused),
        )


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried: calls with the same array, and arrays of many gigabytes."""

    repeat: int = REPEATS
    large: bool = False
    #: Whether several threads may call at the same time.
    concurrent: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """A runtime's function of arrays, what it computes, and how its results are compared."""

    arrays: Arrays
    elements: Elements
    differs: Differs
    example: MakeExample

    @classmethod
    def of(cls, arrays: Arrays, source: str, target: str, given: str = "") -> Subject:
        """One whose results are those of a conversion, or of rounding within one type."""
        return cls(
            arrays,
            Elements(source, target),
            partial(differs, dtype=target),
            lambda x, got, want: Example(source, x, got, want, target, given),
        )

    def findings(self, kernel: Kernel, tried: Tried, effort: Effort) -> Findings:
        """What results depend on beside their operands, of those that were tried."""
        again = kernel(tried.bits)
        places = np.flatnonzero(self.differs(again, tried.first_got))
        if places.size:
            cause = f"differs from call to call: {places.size:,} of {tried.bits.size:,} results"
            rows = (int(p[places[0]]) for p in (tried.bits, again, tried.first_got))
            return Findings((CallFault(cause, self.example(*rows)),), unsteady=True)
        pool = Pool.of(tried.bits, tried.got, self.elements)
        found = ArrayForms(self, pool, effort).findings()
        moved = tried.moved
        if moved and not found.faults:
            example = self.example(moved.x, moved.got, moved.elsewhere)
            return replace(found, faults=(CallFault(moved.cause, example),))
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call: its results, or why there are none."""

    got: Bits | None = None
    #: The error that the runtime raised.
    raised: str = ""
    #: How it returned something else than an array of the operand's type and shape.
    returned: str = ""

    @property
    def why(self) -> str:
        """Why there are no results."""
        return self.raised or self.returned


@dataclass(slots=True)
class Outcomes:
    """Those of several calls that are not right, by what names a call, and the first example."""

    wrong: dict[Any, Wrong] = field(default_factory=dict)
    failed: dict[Any, Outcome] = field(default_factory=dict)
    first: Example | None = None
    #: The first few that are right.
    right: list[Trial] = field(default_factory=list)

    def join(self, others: Outcomes) -> None:
        """Add those of other calls with the same names."""
        for name, wrong in others.wrong.items():
            own = self.wrong.get(name, wrong)
            what = own.what if own.what == wrong.what else "wrong"
            self.wrong[name] = Wrong(np.union1d(own.places, wrong.places), what)
        self.failed = {**others.failed, **self.failed}
        self.first = self.first or others.first


class ArrayForms:
    """Calls a runtime with arrays of every form that it can be given."""

    def __init__(self, subject: Subject, pool: Pool, effort: Effort) -> None:
        self._arrays = subject.arrays
        self._of = subject.elements
        self._differs = subject.differs
        self._make_example = subject.example
        self._effort = effort
        self._trials = Trials(pool, subject.elements)
        self._pool = pool
        lengths = FEW_LENGTHS if self._arrays.slow else LENGTHS
        self._tried_lengths = [
            n for n in lengths if self._of.unit == 1 or n * self._of.unit <= MOST
        ]
        self._faults: dict[str, CallFault] = {}
        self._refused: list[str] = []
        #: Whether arrays of several dimensions are right.
        self._has_ranks = False
        #: The first call that gave other results when it was repeated.
        self._unsteady: CallFault | None = None

    def findings(self) -> Findings:
        """Try every form; raises :class:`TimedOut`."""
        forms = self._arrays.forms
        control = self._trials.line(LENGTH)
        was_right = not self._arrays.slow and self._is_right(control)
        steps = (
            # A whole block was repeated before.
            (self._repeated, not self._arrays.slow or self._effort.repeat > REPEATS),
            (self._lengths, Form.LENGTH in forms),
            (self._starts, Form.MEMORY in forms),
            (self._shapes, Form.RANK in forms),
            (self._strides, Form.MEMORY in forms),
            (self._empty, Form.EMPTY in forms),
            (self._into, Form.MEMORY in forms),
            (self._threaded, self._effort.concurrent and not self._arrays.slow),
            (self._large, self._effort.large and Form.LENGTH in forms),
        )
        for step, possible in steps:
            if possible and self._unsteady is None:
                step()
        if was_right and self._unsteady is None:
            # Calls may have changed what others give.
            outcome = self._called(control)
            if self._has_wrong(control, outcome):
                cause = "differs from call to call: right at first, wrong after further calls"
                self._unsteady = CallFault(cause, self._example(control, outcome))
        if self._unsteady is not None:
            # Results that change by themselves look as if anything had changed them.
            return Findings((self._unsteady,), unsteady=True)
        return Findings(tuple(self._faults.values()), tuple(self._refused))

    def _repeated(self) -> None:
        """Call with one array again and again; what was returned must stay as it is."""
        trial = self._trials.line(LENGTH)
        given, wrong = trial.bits.copy(), list[Outcome]()
        for _ in range(self._effort.repeat):
            trial.bits[:] = given  # a call may have changed it
            outcome = self._called(trial)
            if self._has_wrong(trial, outcome):
                wrong.append(outcome)
        if 0 < len(wrong) < self._effort.repeat:
            cause = f"differs from call to call: {len(wrong):,} of {self._effort.repeat:,} calls"
            self._unsteady = CallFault(cause, self._example(trial, wrong[0]))
        if Form.MEMORY in self._arrays.forms:
            result = self._attempt(self._arrays.call, trial.array)
            before = result.tobytes() if isinstance(result, np.ndarray) else None
            self._attempt(self._arrays.call, self._trials.line(LENGTH).array)
            if isinstance(result, np.ndarray) and result.tobytes() != before:
                self._add("the next call changes its result")

    def _threaded(self) -> None:
        """Call from several threads at once."""
        trials = [self._trials.line(LENGTH) for _ in range(THREADS * self._effort.repeat)]
        with ThreadPoolExecutor(THREADS) as threads:
            outcomes = list(threads.map(self._called, trials))
        both = list(zip(trials, outcomes, strict=True))
        wrong = [each for each in both if self._has_wrong(*each)]
        if wrong and all(self._is_right(trial) for trial, _ in wrong):
            cause = f"wrong in {len(wrong):,} of {len(both):,} calls by {THREADS} threads at once"
            self._add(cause, self._example(*wrong[0]))

    def _large(self) -> None:
        """Arrays of so many elements and bytes that an index may be too short for them."""
        size = BY_NAME[self._of.source].itemsize
        for count in (LARGE_ELEMENTS, *(each // size for each in LARGE_BYTES)):
            length = -(-count // self._of.unit) * self._of.unit
            array = np.resize(self._pool.bits[: POOL * self._of.unit], length)
            result = self._attempt(self._arrays.call, array.view(BY_NAME[self._of.source].numpy))
            if isinstance(result, CannotVerify):
                self._refused.append(f"{length:,} elements: {result.reason}")
                continue
            got = patterns(result, array.shape, self._of.target, "it")
            for start in range(0, length, POOL * self._of.unit):
                part = got[start : start + POOL * self._of.unit]
                wrong = np.flatnonzero(self._differs(part, self._pool.results[: part.size]))
                if wrong.size:
                    rows = (each[wrong[0]] for each in (array, part, self._pool.results))
                    cause = f"an array of {length:,} elements is wrong from element "
                    example = self._make_example(*map(int, rows))
                    self._add(f"{cause}{start + wrong[0]:,} on", example)
                    break

    def _attempt(self, function: Callable[..., object], *arrays: Values) -> object:
        """What a call returns, or its error; raises :class:`TimedOut`."""
        try:
            return function(*arrays)
        except TimedOut:
            raise
        except CannotVerify as error:
            return error

    def _outcomes(self, trials: Iterable[tuple[object, Trial]]) -> Outcomes:
        """Call once with each, and again where the results are not the known ones."""
        found = Outcomes()
        for name, trial in trials:
            outcome = self._called(trial)
            if outcome.why:
                found.failed[name] = outcome
            elif (wrong := self._wrong(trial, outcome)) is not None:
                found.wrong[name] = wrong
                found.first = found.first or self._example(trial, outcome)
            elif len(found.right) < CONTROLS:
                found.right.append(trial)
        return found

    def _lengths(self) -> None:
        """Arrays of one dimension, with memory that begins where vectors do."""
        tried, unit = self._tried_lengths, self._of.unit
        found = self._outcomes((n, self._trials.line(n)) for n in tried)
        some = [n for n in tried if n <= MOST and unit == 1][-2 if self._arrays.slow else 0 :]
        drawn = self._outcomes((n, self._trials.line(n, drawn=True)) for n in some)
        found.join(drawn)
        if found.failed:
            length, outcome = next(iter(found.failed.items()))
            nouns = self._of.noun if length == 1 else f"{self._of.noun}s"
            others = len(found.failed) - 1
            more = f" and {others} other lengths" if others else ""
            self._add(f"arrays of {length:,} {nouns}{more}: {outcome.why}")
        if found.wrong:
            if self._unsteady is None and not all(map(self._is_right, found.right)):
                cause = "differs from call to call: arrays that were right are wrong later"
                self._unsteady = CallFault(cause, found.first)
            by_unit = {  # of units of one element they are already
                n: wrong if unit == 1 else Wrong(np.unique(wrong.places // unit), wrong.what)
                for n, wrong in sorted(found.wrong.items())
            }
            returned = [n for n in tried if n not in found.failed]
            self._add(cause_of_lengths(by_unit, returned, self._of.noun), found.first)

    def _empty(self) -> None:
        trials = self._trials.empty(ranks=self._has_ranks)
        failed = self._outcomes((trial.name, trial) for trial in trials).failed
        for name, outcome in list(failed.items())[:1]:
            shape = "" if name == "(0,)" else f" {name}"
            self._add(f"the empty tensor{shape}: {outcome.why}")

    def _starts(self) -> None:
        """Memory that begins elsewhere."""
        trials = [self._trials.line(LENGTH, start) for start in STARTS]
        found = self._outcomes((trial.start, trial) for trial in trials)
        tried = [trial.start for trial in trials]
        if not self._is_right(self._trials.line(LENGTH)):
            return  # not for this reason
        if found.wrong:
            where = cause_of_starts(list(found.wrong), tried)
            self._add(f"wrong in unaligned memory: {where}", found.first)
        if found.failed:
            where = cause_of_starts(list(found.failed), tried)
            why = [*found.failed.values()][-1].why
            self._add(f"in unaligned memory, {where}: {why}")

    def _strides(self) -> None:
        self._tried(self._trials.strided(ranks=self._has_ranks), "strided input")

    def _shapes(self) -> None:
        self._has_ranks = self._tried(self._trials.shaped(), "other ranks")

    def _tried(self, trials: Iterable[Trial], called: str) -> bool:
        """Whether views or shapes are right: an error that is raised for these is a refusal."""
        # What is wrong in one dimension too is not wrong for this reason.
        sizes: dict[int, bool] = {}
        some = []
        for trial in trials:
            size = trial.array.size // self._of.unit
            if size not in sizes:
                sizes[size] = self._is_right(self._trials.line(size))
            some += [(trial.name, trial)] * sizes[size]
        found = self._outcomes(some)
        refused = {name: outcome for name, outcome in found.failed.items() if outcome.raised}
        returned = {name: f": {o.why}" for name, o in found.failed.items() if not o.raised}
        if wrong := [*found.wrong, *returned]:
            form = next(iter(returned.values()), "")
            self._add(f"wrong for {called}: {', '.join(wrong)}{form}", found.first)
        if refused:
            why = [*refused.values()][-1].why
            self._refused.append(f"{called}, {', '.join(refused)}: {why}")
        return all(sizes.values()) and not (wrong or refused)

    def _into(self) -> None:
        """Round into an array of the caller's, and into the operand."""
        if self._arrays.into is None:
            return
        for name in ("out=y", "out=x"):
            trial = self._trials.line(LENGTH)
            want = self._pool.results[trial.places]
            out = trial.array if name == "out=x" else np.zeros_like(trial.array)
            result = self._attempt(self._arrays.into, trial.array, out)
            if isinstance(result, CannotVerify):
                self._refused.append(f"{name}: {result.reason}")
                continue
            wrong = self._differs(out.view(want.dtype), want)
            if wrong.any():
                where = "in place, with out=x" if name == "out=x" else "with out=y"
                self._add(f"wrong {where}", self._example(trial, Outcome(out.view(want.dtype))))
                return

    def _called(self, trial: Trial) -> Outcome:
        """Call once, and see to it that the operand and the memory around it stay."""
        before = trial.room.copy()
        result = self._attempt(self._arrays.call, trial.array)
        if isinstance(result, CannotVerify):
            return Outcome(raised=result.reason)
        try:
            got = patterns(result, trial.places.shape, self._of.target, "it").copy()
        except CannotVerify as error:
            return Outcome(returned=error.reason)
        finally:
            if not np.array_equal(trial.room, before):
                self._changed(trial, before)
        return Outcome(got)

    def _changed(self, trial: Trial, before: npt.NDArray[np.uint8]) -> None:
        if np.array_equal(trial.bits, self._pool.bits[trial.places]):
            self._add("writes beyond its operand")
        else:
            self._add("changes its operand")
        trial.room[:] = before

    def _has_wrong(self, trial: Trial, outcome: Outcome) -> bool:
        known = self._pool.results[trial.places]
        return outcome.got is not None and bool(self._differs(outcome.got, known).any())

    def _wrong(self, trial: Trial, outcome: Outcome) -> Wrong | None:
        """The results that are not the known ones, if the same call gives them again."""
        if outcome.got is None or not self._has_wrong(trial, outcome):
            return None
        got, x = outcome.got, np.asarray(self._pool.bits[trial.places])
        again = self._called(trial)
        if again.got is None or self._differs(again.got, got).any():
            self._unsteady = CallFault("differs from call to call", self._example(trial, outcome))
            return None
        wrong = self._differs(got, self._pool.results[trial.places])
        what = "wrong" if got[wrong].any() else "zero"
        if self._of.source == self._of.target and np.array_equal(got[wrong], x[wrong]):
            what = "not rounded"
        return Wrong(np.flatnonzero(wrong), what)

    def _is_right(self, trial: Trial) -> bool:
        outcome = self._called(trial)
        return outcome.got is not None and self._wrong(trial, outcome) is None

    def _example(self, trial: Trial, outcome: Outcome) -> Example | None:
        """The first result that is not the known one."""
        if outcome.got is None:
            return None
        given, known = self._pool.bits[trial.places], self._pool.results[trial.places]
        places = np.flatnonzero(self._differs(outcome.got, known))
        x, got, want = (int(bits.reshape(-1)[places[0]]) for bits in (given, outcome.got, known))
        return self._make_example(x, got, want)

    def _add(self, cause: str, example: Example | None = None) -> None:
        self._faults.setdefault(cause, CallFault(cause, example))
