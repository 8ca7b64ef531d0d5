"""Whether results depend on anything but the operand: on the call, the array, or its memory.

The standard is the runtime itself: the results that it has for each operand wherever it is. So
nothing is found here that is wrong with a pattern, and everything that is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensor_round.contract.errors import CannotVerify

from ..reference import Bits, bits_type
from ..report import CallFault, Example
from ..runtimes.forms import Arrays, Form, Values
from ..runtimes.runtime import TimedOut, patterns
from .positions import Wrong, cause_of_lengths, cause_of_starts
from .repeatability import Differs
from .sample_arrays import FEW_LENGTHS, LENGTH, LENGTHS, STARTS, Pool, Trial, Trials, shapes_with

#: Calls with the same array.
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Calls:
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


class Caller:
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

    def calls(self) -> Calls:
        """Try every form; raises :class:`TimedOut`."""
        forms = self._arrays.forms
        if self._arrays.prepare is not None:
            self._arrays.prepare(shapes_with(self._tried_lengths))
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
            return Calls((self._unsteady,))
        return Calls(tuple(self._faults.values()), tuple(self._refused))

    def _repeated(self) -> None:
        """Call with one array again and again; what was returned must stay as it is."""
        trial = self._trials.line(LENGTH)
        given = trial.bits.copy()
        for _ in range(REPEATS):
            trial.bits[:] = given  # a call may have changed it
            self._wrong(trial, self._called(trial))
        if Form.MEMORY in self._arrays.forms:
            result = self._round(trial.array)
            before = result.tobytes() if isinstance(result, np.ndarray) else None
            self._round(self._trials.line(LENGTH).array)
            if isinstance(result, np.ndarray) and result.tobytes() != before:
                self._add("its result is changed by the next call")

    def _round(self, x: Values) -> object:
        try:
            return self._arrays.round(x)
        except TimedOut:
            raise
        except CannotVerify:
            return None

    def _lengths(self) -> None:
        """Arrays of one dimension, with memory that begins where vectors do."""
        tried = self._tried_lengths
        found: dict[int, Wrong] = {}
        failed: dict[int, str] = {}
        first: Example | None = None
        for length in tried:
            trial = self._trials.line(length)
            outcome = self._called(trial)
            if why := outcome.raised or outcome.returned:
                failed[length] = why
            elif (wrong := self._wrong(trial, outcome)) is not None:
                found[length] = wrong
                first = first or self._example(trial, outcome)
        if failed:
            length, why = next(iter(failed.items()))
            elements = "element" if length == 1 else "elements"
            more = f" and {len(failed) - 1} other lengths" if len(failed) > 1 else ""
            self._add(f"arrays of {length:,} {elements}{more}: {why}")
        if found:
            self._add(cause_of_lengths(found, [n for n in tried if n not in failed]), first)

    def _empty(self) -> None:
        for trial in self._trials.empty(ranks=self._has_ranks):
            outcome = self._called(trial)
            if why := outcome.raised or outcome.returned:
                shape = "" if trial.array.ndim == 1 else f" {trial.name}"
                self._add(f"the empty tensor{shape}: {why}")
                return

    def _starts(self) -> None:
        """Memory that begins elsewhere."""
        found: list[int] = []
        failed: list[int] = []
        why, first = "", None
        for start in STARTS:
            trial = self._trials.line(LENGTH, start)
            outcome = self._called(trial)
            if outcome.raised or outcome.returned:
                failed.append(trial.start)
                why = outcome.raised or outcome.returned
            elif self._wrong(trial, outcome) is not None:
                found.append(trial.start)
                first = first or self._example(trial, outcome)
        tried = [start * bits_type(self._dtype).itemsize for start in STARTS]
        if not self._is_right(self._trials.line(LENGTH)):
            return  # not for this reason
        if found:
            self._add(f"wrong in unaligned memory: {cause_of_starts(found, tried)}", first)
        if failed:
            self._add(f"in unaligned memory, {cause_of_starts(failed, tried)}: {why}")

    def _strides(self) -> None:
        self._tried(self._trials.strided(ranks=self._has_ranks), "strided input")

    def _shapes(self) -> None:
        self._has_ranks = self._tried(self._trials.shaped(), "several dimensions")

    def _tried(self, trials: Iterable[Trial], called: str) -> bool:
        """Whether views or shapes are right: an error that is raised for these is a refusal."""
        found: list[str] = []
        refused: list[str] = []
        why, form, first = "", "", None
        if not self._is_right(self._trials.line(LENGTH)):
            return False  # so are these, and not for this reason
        for trial in trials:
            outcome = self._called(trial)
            if outcome.raised:
                refused.append(trial.name)
                why = outcome.raised
            elif outcome.returned:
                found.append(trial.name)
                form = form or f": {outcome.returned}"
            elif self._wrong(trial, outcome) is not None:
                found.append(trial.name)
                first = first or self._example(trial, outcome)
        if found:
            self._add(f"wrong for {called}: {', '.join(found)}{form}", first)
        if refused:
            self._refused.append(f"{called}, {', '.join(refused)}: {why}")
        return not (found or refused)

    def _into(self) -> None:
        """Round into an array of the caller's, and into the operand."""
        if self._arrays.into is None:
            return
        for name in ("out=y", "out=x"):
            trial = self._trials.line(LENGTH)
            want = self._pool.results[trial.places]
            out = trial.array if name == "out=x" else np.zeros_like(trial.array)
            try:
                self._arrays.into(trial.array, out)
            except TimedOut:
                raise
            except CannotVerify as error:
                self._refused.append(f"{name}: {error.reason}")
                continue
            wrong = self._differs(out.view(want.dtype), want)
            if wrong.any():
                where = "in place, with out=x" if name == "out=x" else "with out=y"
                self._add(f"wrong {where}", self._example(trial, Outcome(out.view(want.dtype))))
                return

    def _called(self, trial: Trial) -> Outcome:
        """Call once, and see to it that the operand and the memory around it stay."""
        before = trial.room.copy()
        try:
            result = self._arrays.round(trial.array)
        except TimedOut:
            raise
        except CannotVerify as error:
            return Outcome(raised=error.reason)
        try:
            got = patterns(result, trial.bits, self._dtype, "it").reshape(trial.places.shape).copy()
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
