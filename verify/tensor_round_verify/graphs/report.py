"""The verdicts on a model's nodes and outputs: as values, text, JSON and JUnit XML."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any

from ..report import Case, Example, Verdict, junit_document
from .graph import Node, NodeLacking
from .outputs import OutputDifference, OutputVerdict

#: Wrong elements that the text shows of each verdict.
FIRST = 3
#: The width of the text.
COLUMNS = 80


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The verdict on a node of a model by a runtime.

    ``shape`` is that of the tensor that reached it. ``in_model`` tells whether the runtime ran the
    whole model; else it ran its own operator on the tensor that reached the node in ``source``.
    ``note`` is a sentence about the runtime's operator, if it is not the node's. ``right_alone``
    tells that the node is wrong in the model, but the runtime's operator is right by itself.
    """

    node: Node
    runtime: str
    shape: tuple[int, ...]
    in_model: bool
    source: str
    verdict: Verdict
    note: str = ""
    right_alone: bool = False

    @property
    def what(self) -> str:
        """What the verdict is on."""
        return self.node.name

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit."""
        return self.verdict.right

    @property
    def first(self) -> tuple[Example, ...]:
        """The first wrong elements, in C order."""
        examples = (example for count in self.verdict.classes for example in count.first)
        return tuple(heapq.nsmallest(FIRST, examples, key=lambda example: example.index or ()))

    @property
    def sentence(self) -> str:
        """The verdict in words, and what is special about the runtime's operator."""
        tried = self.verdict.tried
        told = f"{tried:,} {_plural('result', tried)}, right"
        if self.right and self.verdict.nans and self.verdict.nans.sentence:
            told += f"; {self.verdict.nans.sentence}"
        elif self.right_alone:
            told = (
                f"{self.verdict.wrong:,} of {tried:,} wrong, but its own {self.node.operator} "
                "alone is right for these operands: the tensor inside is wider than the one that "
                "is handed out"
            )
        elif not self.right:
            told = self.verdict.sentence
        return f"{told}; {self.note}" if self.note else told

    def __str__(self) -> str:
        """The sentence, and the first wrong elements."""
        who = self.runtime if self.in_model else f"{self.runtime}, its own operator"
        return "\n".join([f"{who}: {self.sentence}", *(f"  {one}" for one in self.first)])

    def as_data(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {
            "node": self.node.name,
            "operator": self.node.operator,
            "runtime": self.runtime,
            "shape": list(self.shape),
            "in_model": self.in_model,
            "source": self.source,
            "note": self.note or None,
            "right": self.right,
            "right_alone": self.right_alone,
            "first": [example.as_data() for example in self.first],
            **self.verdict.as_data(),
        }


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The verdicts on a model's nodes and outputs, and what got none.

    ``others`` counts the nodes of each operator that neither rounds nor converts. ``unjudged`` are
    the runtimes that could not run the model, or got no verdict, each with the reason.
    ``differences`` are between what the first runtime and another gave.
    """

    model: str
    verdicts: tuple[NodeVerdict, ...]
    lacking: tuple[NodeLacking, ...] = ()
    outputs: tuple[OutputVerdict, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    unjudged: tuple[NodeLacking, ...] = ()
    differences: tuple[OutputDifference, ...] = ()

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit, and every runtime has verdicts."""
        return not (self.wrong or self.unjudged)

    @property
    def every(self) -> tuple[NodeVerdict | OutputVerdict, ...]:
        """The verdicts on nodes, and those on outputs."""
        return (*self.verdicts, *self.outputs)

    @property
    def wrong(self) -> int:
        """The number of verdicts that are not right."""
        return sum(not verdict.right for verdict in self.every)

    def __str__(self) -> str:
        """The whole report: for each node and output what each runtime does."""
        lines = [self.model]
        for node in dict.fromkeys(verdict.node for verdict in self.verdicts):
            rows = [verdict for verdict in self.verdicts if verdict.node == node]
            dtype, shape = rows[0].verdict.dtype.split()[0], list(rows[0].shape)
            lines += ["", f"{node.name}: {node.operator} of {dtype} {shape}", *_indented(rows)]
        for output in dict.fromkeys(verdict.output for verdict in self.outputs):
            own = [verdict for verdict in self.outputs if verdict.output == output]
            form = f"{own[0].dtype} {list(own[0].shape)}"
            lines += ["", f"{output}, output of the unchanged model: {form}", *_indented(own)]
            lines += _indented(row for row in self.differences if row.output == output)
        told = [*map(str, self.unjudged), *self._lacking(), *self._others()]
        return "\n".join(wrapped([*lines, *[""][: len(told)], *told]))

    @property
    def summary(self) -> str:
        """The counts in one line."""
        nodes = len({verdict.node for verdict in self.verdicts})
        outputs = len({verdict.output for verdict in self.outputs})
        runtimes = len({row.runtime for row in (*self.every, *self.unjudged)})
        counted = f"{nodes} {_plural('node', nodes)}"
        if outputs:
            counted += f" and {outputs} {_plural('output', outputs)}"
        told = f"{self.wrong} of {len(self.every)} checks failed" if self.wrong else "right"
        told += "".join(f"; no verdict on the model by {row.runtime}" for row in self.unjudged)
        if differing := len({difference.output for difference in self.differences}):
            told += f"; runtimes differ in {differing} {_plural('output', differing)}"
        lacking = f"; {len(self.lacking)} not judged" if self.lacking else ""
        return (
            f"{self.model}: {counted} by {runtimes} {_plural('runtime', runtimes)}, {told}{lacking}"
        )

    def _lacking(self) -> Iterator[str]:
        """Nodes that get no verdict, those with the same reason in one line."""
        nodes: dict[str, list[str]] = {}
        for row in self.lacking:
            nodes.setdefault(row.reason, []).append(row.node)
        for reason, names in nodes.items():
            more = f" and {len(names) - FIRST:,} more" if len(names) > FIRST else ""
            yield f"{', '.join(names[:FIRST])}{more}, {reason}"

    def _others(self) -> Iterator[str]:
        if self.others:
            counts = (
                operator if count == 1 else f"{count:,} {operator}"
                for operator, count in self.others.items()
            )
            yield f"not judged, for they neither round nor convert: {', '.join(counts)}"

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "model": self.model,
            "right": self.right,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "outputs": [verdict.as_data() for verdict in self.outputs],
            "lacking": [row.as_data() for row in self.lacking],
            "others": dict(self.others),
            "unjudged": [row.as_data() for row in self.unjudged],
            "differences": [asdict(row) for row in self.differences],
        }

    def junit_xml(self) -> bytes:
        """A test suite of the model: a case for each verdict, and for each without one."""
        verdicts = (
            Case(verdict.runtime, verdict.what)
            if verdict.right
            else Case(
                verdict.runtime,
                verdict.what,
                "failure",
                verdict.sentence,
                "\n".join(map(str, verdict.first)),
            )
            for verdict in self.every
        )
        unjudged = (Case(row.runtime, row.node, "error", row.why) for row in self.unjudged)
        lacking = (
            Case(row.runtime or self.model, row.node, "skipped", row.reason) for row in self.lacking
        )
        return junit_document(self.model, [*verdicts, *unjudged, *lacking])


def _indented(rows: Iterable[object]) -> Iterator[str]:
    """The lines of rows."""
    return (f"  {line}" for row in rows for line in str(row).splitlines())


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """The lines, those that are longer than a terminal is wide in several."""
    for line in lines:
        start = " " * (len(line) - len(line.lstrip()))
        parts = wrap(
            line.strip(),
            COLUMNS,
            initial_indent=start,
            subsequent_indent=f"{start}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from parts or [""]


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
