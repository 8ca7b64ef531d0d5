"""The verdicts on a model's outputs: those of the unchanged model, beside what they should be."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensor_round.contract.differences.document import Value, index_of
from tensor_round.contract.errors import CannotVerify

from ..checks.rounding import Nans
from ..reference import WIDTHS, Flags, differs
from ..runtimes import Runtime
from ..runtimes.model_tensors import Array, Tensor
from .chains import Expected, expected_outputs
from .graph import Graph, NodeLacking

#: Differing elements that the text shows, and nodes that it names.
FIRST = 3
NAMED = 4


@dataclass(frozen=True, slots=True)
class OutputExample:
    """An element of an output: its index, and its patterns in both runs."""

    dtype: str
    index: tuple[int, ...]
    got: int
    want: int

    def as_data(self) -> dict[str, Any]:
        """Each pattern as its value in decimal and its bits in hexadecimal."""
        got, want = (asdict(self._value(bits)) for bits in (self.got, self.want))
        return {"index": list(self.index), "got": got, "want": want}

    def __str__(self) -> str:
        got, want = self._value(self.got), self._value(self.want)
        return f"{list(self.index)}: got {got.value} ({got.bits}), want {want.value} ({want.bits})"

    def _value(self, bits: int) -> Value:
        return Value.of(self.dtype, bits) if self.dtype in WIDTHS else Value(str(bool(bits)), "")


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """The verdict on an output of the unchanged model by a runtime.

    ``different`` of its elements differ: from the right results, if ``beside`` is "the reference",
    else from those of a run in which the tensors of nodes were outputs too. ``behind`` are the
    nodes that the output depends on, ``unjudged`` those of them that round by no rule known here.
    ``cause`` is a sentence.
    """

    output: str
    runtime: str
    dtype: str
    shape: tuple[int, ...]
    beside: str
    tried: int
    different: int
    first: tuple[OutputExample, ...]
    behind: tuple[str, ...]
    cause: str = ""
    unjudged: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What the verdict is on."""
        return f"output {self.output}"

    @property
    def right(self) -> bool:
        """Whether no element differs."""
        return not self.different

    @property
    def sentence(self) -> str:
        """The counts and the cause in words."""
        noun = "element" if self.tried == 1 else "elements"
        if self.right:
            same = "right" if self.beside == REFERENCE else f"the same {_ASKED}"
            verb = "is" if len(self.unjudged) == 1 else "are"
            more = f"; {listed(self.unjudged)} before it {verb} not judged" if self.unjudged else ""
            return f"{self.tried:,} {noun}, {same}{more}"
        count = f"{self.different:,} of {self.tried:,} {noun}"
        differ = "wrong" if self.beside == REFERENCE else f"differ from those {_ASKED}"
        return f"{count} {differ}: {self.cause}"

    def __str__(self) -> str:
        """The sentence, and the first elements."""
        return "\n".join(
            [f"{self.runtime}: {self.sentence}", *(f"  {example}" for example in self.first)]
        )

    def as_data(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        first = [example.as_data() for example in self.first]
        return {**asdict(self), "first": first, "right": self.right, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """An output of the unchanged model that two runtimes give differently: so many elements.

    It is no verdict: sums in another order differ, too.
    """

    output: str
    runtimes: tuple[str, str]
    tried: int
    different: int

    def __str__(self) -> str:
        one, other = self.runtimes
        return f"{one} and {other} differ in {self.different:,} of {self.tried:,} elements"


#: What outputs are compared with.
REFERENCE, OBSERVED = "the reference", "the observed run"
_ASKED = "when the tensors between are asked for"


class UnchangedRuns:
    """A runtime's runs of a model as it is, beside what it did in the observed run.

    ``tensors`` were handed out there; None if it did not load the model with more outputs.
    ``wrong`` are the nodes whose operators are wrong.
    """

    def __init__(
        self,
        graph: Graph,
        runtime: Runtime,
        given: Mapping[str, Array],
        nans: Nans | None,
        tensors: Mapping[str, Tensor] | None,
        wrong: Collection[str],
    ) -> None:
        self._graph, self._runtime, self._given = graph, runtime, given
        self._nans, self._tensors, self._wrong = nans, tensors, wrong
        self._further: dict[bool, dict[str, Tensor]] = {}
        #: The outputs of the run that has verdicts.
        self.found: dict[str, Tensor] = {}

    def verdicts(self) -> list[OutputVerdict | NodeLacking]:
        """The verdict on each output, or why there is none; raises :class:`CannotVerify`."""
        found = self.found = self._graph.unchanged(self._runtime, self._given)
        handed = self._tensors
        known = handed or {name: Tensor.of(array) for name, array in self._given.items()}
        expected = expected_outputs(self._graph, known)
        return [
            self._verdict(name, found[name], expected.get(name), handed[tensor] if handed else None)
            for name, tensor in self._graph.outputs.items()
        ]

    def _verdict(
        self, name: str, got: Tensor, expected: Expected | None, observed: Tensor | None
    ) -> OutputVerdict | NodeLacking:
        if not got.is_whole:
            return self._lacking(name, f"it is {got.dtype}, which is not compared")
        want = expected.tensor if expected else observed
        if want is None:
            return self._lacking(name, "the runtime ran the model with its own outputs alone")
        has_result = expected.has_result if expected else None
        wrong = self._differing(got, want, has_result)
        behind = self._graph.behind(name)
        random = [node.operator for node in behind if node.random]
        if wrong.any() and random:
            return self._lacking(name, f"it depends on {random[0]}, which is random")
        places = np.flatnonzero(wrong)
        shown = places[:FIRST] if _form(got) == _form(want) else ()
        tried = wrong.size if has_result is None else int(has_result.sum())
        return OutputVerdict(
            output=name,
            runtime=self._runtime.name,
            dtype=got.dtype,
            shape=got.shape,
            beside=REFERENCE if expected else OBSERVED,
            tried=tried,
            different=places.size,
            first=tuple(
                OutputExample(
                    got.dtype,
                    index_of(int(place), got.shape),
                    int(got.bits[place]),
                    int(want.bits[place]),
                )
                for place in shown
            ),
            behind=tuple(node.name for node in behind),
            cause=self._cause(name, got, want, observed, expected) if places.size else "",
            unjudged=tuple(f"{node.name} ({node.operator})" for node in behind if node.why),
        )

    def _cause(
        self,
        name: str,
        got: Tensor,
        want: Tensor,
        observed: Tensor | None,
        expected: Expected | None,
    ) -> str:
        """Why an output differs, and the nodes that lie behind it."""
        has_result = expected.has_result if expected else None
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"it is {_form(got)}, where {_form(want)} is right"
        again = self._output(name, strict=False)
        if again is None or self._differing(got, again, has_result).any():
            return "it differs from run to run"
        behind = self._graph.behind(name)
        told = f"the runtime fuses or drops some of {listed(node.name for node in behind)}"
        if observed is not None and not self._differing(got, observed, has_result).any():
            blamed = [node.name for node in behind if node.name in self._wrong]
            if blamed:
                return f"{listed(blamed)} {'is' if len(blamed) == 1 else 'are'} wrong, see above"
            return f"{told}, and passes on wider tensors than it hands out"
        handed_out = observed if expected else None
        if handed_out is not None and not self._differing(handed_out, want, has_result).any():
            told += f": right {_ASKED}"
        strict = self._output(name, strict=True) if self._runtime.strict_options else None
        if strict is not None and not self._differing(strict, want, has_result).any():
            told += f"; {'right' if expected else 'none'} with {self._runtime.strict_options}"
        return told

    def _output(self, name: str, *, strict: bool) -> Tensor | None:
        """The output in another run of the unchanged model; None if that fails."""
        if strict not in self._further:
            self._further[strict] = {}
            with contextlib.suppress(CannotVerify):
                found = self._graph.unchanged(self._runtime, self._given, strict=strict)
                self._further[strict] = found
        return self._further[strict].get(name)

    def _differing(self, got: Tensor, want: Tensor, has_result: Flags | None) -> Flags:
        wrong = differing(got, want, self._nans)
        if has_result is None or _form(got) != _form(want):
            return wrong
        return wrong & has_result

    def _lacking(self, name: str, why: str) -> NodeLacking:
        return NodeLacking(name, "output", why, self._runtime.name)


def differing(got: Tensor, want: Tensor, nans: Nans | None) -> Flags:
    """Which elements differ: all those of a tensor of another type or shape."""
    if _form(got) != _form(want):
        return np.ones(max(1, got.bits.size), np.bool_)
    wrong: Flags = got.bits != want.bits
    return wrong if nans == "bits" else differs(got.bits, want.bits, got.dtype)


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def listed(names: Iterable[str]) -> str:
    """The last names, which are the nearest to the output, and the count of those before."""
    every = list(names)
    shown = ", ".join(every[-NAMED:])
    more = len(every) - NAMED
    return f"{shown} and {more:,} more before" if more > 0 else shown
