"""Whether results depend on anything but the operand: on the call, the array, or its memory.

The standard is the runtime itself: the results that it has for each operand wherever it is. So
nothing is found here that is wrong with a pattern, and everything that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.errors import CannotVerify

from ..explain import Differs
from ..reference import Bits
from ..report import CallFault, Example
from ..runtimes.forms import Arrays, Form, Values
from ..runtimes.runtime import TimedOut, patterns
from .positions import Wrong, cause_of_lengths, cause_of_starts
from .sample_arrays import FEW_LENGTHS, LENGTH, LENGTHS, STARTS, Pool, Trial, Trials

#: Calls with the same array.
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: faults, and the forms of arrays that the runtime refuses, with reasons."""

    faults: tuple[CallFault, ...] = ()
    refused: tuple[str, ...] = ()


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


class ArrayForms:
    """Calls a runtime with arrays of every form that it can be given."""

    def __init__(self, arrays: Arrays, pool: Pool, dtype: str, differs: Differs) -> None:
        self._arrays = arrays
        self._trials = Trials(pool, dtype)
        self._pool = pool
        self._dtype = dtype
        self._differs = differs
        self._tried_lengths = FEW_LENGTHS if arrays.slow else LENGTHS
        self._faults: dict[str, CallFault] = {}
        self._refused: list[str] = []
        #: Whether arrays of several dimensions are right.
        self._has_ranks = False
        #: The first call that gave other results when it was repeated.
        self._unsteady: CallFault | None = None

    def findings(self) -> Findings:
        """Try every form; raises :class:`TimedOut`."""
        forms = self._arrays.forms
        steps = (
            # A whole block was repeated before.
            (self._repeated, not self._arrays.slow),
            (self._lengths, Form.LENGTH in forms),
            (self._starts, Form.MEMORY in forms),
            (self._shapes, Form.RANK in forms),
            (self._strides, Form.MEMORY in forms),
            (self._empty, Form.EMPTY in forms),
            (self._into, Form.MEMORY in forms),
        )
        for step, possible in steps:
            if possible and self._unsteady is None:
                step()
        if self._unsteady is not None:
            # Results that change by themselves look as if anything had changed them.
            return Findings((self._unsteady,))
        return Findings(tuple(self._faults.values()), tuple(self._refused))

    def _repeated(self) -> None:
        """Call with one array again and again; what was returned must stay as it is."""
        trial = self._trials.line(LENGTH)
        given = trial.bits.copy()
        for _ in range(REPEATS):
            trial.bits[:] = given  # a call may have changed it
            self._wrong(trial, self._called(trial))
        if Form.MEMORY in self._arrays.forms:
            result = self._attempt(self._arrays.call, trial.array)
            before = result.tobytes() if isinstance(result, np.ndarray) else None
            self._attempt(self._arrays.call, self._trials.line(LENGTH).array)
            if isinstance(result, np.ndarray) and result.tobytes() != before:
                self._add("the next call changes its result")

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
        return found

    def _lengths(self) -> None:
        """Arrays of one dimension, with memory that begins where vectors do."""
        tried = self._tried_lengths
        found = self._outcomes((length, self._trials.line(length)) for length in tried)
        if found.failed:
            length, outcome = next(iter(found.failed.items()))
            elements = "element" if length == 1 else "elements"
            others = len(found.failed) - 1
            more = f" and {others} other lengths" if others else ""
            self._add(f"arrays of {length:,} {elements}{more}: {outcome.why}")
        if found.wrong:
            returned = [n for n in tried if n not in found.failed]
            self._add(cause_of_lengths(found.wrong, returned), found.first)

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
            where, outcome = (
                cause_of_starts(list(found.failed), tried),
                [*found.failed.values()][-1],
            )
            self._add(f"in unaligned memory, {where}: {outcome.why}")

    def _strides(self) -> None:
        self._tried(self._trials.strided(ranks=self._has_ranks), "strided input")

    def _shapes(self) -> None:
        self._has_ranks = self._tried(self._trials.shaped(), "several dimensions")

    def _tried(self, trials: Iterable[Trial], called: str) -> bool:
        """Whether views or shapes are right: an error that is raised for these is a refusal."""
        if not self._is_right(self._trials.line(LENGTH)):
            return False  # so are these, and not for this reason
        found = self._outcomes((trial.name, trial) for trial in trials)
        refused = {name: outcome for name, outcome in found.failed.items() if outcome.raised}
        returned = {name: f": {o.why}" for name, o in found.failed.items() if not o.raised}
        if wrong := [*found.wrong, *returned]:
            form = next(iter(returned.values()), "")
            self._add(f"wrong for {called}: {', '.join(wrong)}{form}", found.first)
        if refused:
            why = [*refused.values()][-1].why
            self._refused.append(f"{called}, {', '.join(refused)}: {why}")
        return not (wrong or refused)

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
            got = patterns(result, trial.places.shape, self._dtype, "it").copy()
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

    def _wrong(self, trial: Trial, outcome: Outcome) -> Wrong | None:
        """The results that are not the known ones, if the same call gives them again."""
        if outcome.got is None:
            return None
        got, x = outcome.got, self._pool.bits[trial.places]
        wrong = self._differs(got, self._pool.results[trial.places])
        if not wrong.any():
            return None
        again = self._called(trial)
        if again.got is None or self._differs(again.got, got).any():
            self._unsteady = CallFault("differs from call to call", self._example(trial, outcome))
            return None
        what = "wrong" if got[wrong].any() else "zero"
        if np.array_equal(got[wrong], x[wrong]):
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
        return Example(self._dtype, x, got, want)

    def _add(self, cause: str, example: Example | None = None) -> None:
        self._faults.setdefault(cause, CallFault(cause, example))
