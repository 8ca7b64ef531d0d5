"""The verdicts on a model's nodes: as values, text and JSON."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..report import Example, Verdict
from .graph import Node, NodeLacking

#: Wrong elements that the text shows of each verdict.
FIRST = 3


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The verdict on a node of a model by a runtime.

    ``shape`` is that of the tensor that reached it. ``in_model`` tells whether the runtime ran the
    whole model; else it ran its own operator on the tensor that reached the node in ``source``.
    ``note`` is a sentence about the runtime's operator, if it is not the node's.
    """

    node: Node
    runtime: str
    shape: tuple[int, ...]
    in_model: bool
    source: str
    verdict: Verdict
    note: str = ""

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit."""
        return self.verdict.right

    @property
    def first(self) -> tuple[Example, ...]:
        """The first wrong elements, in C order."""
        examples = (example for count in self.verdict.classes for example in count.first)
        return tuple(heapq.nsmallest(FIRST, examples, key=lambda example: example.index or ()))

    def __str__(self) -> str:
        """The sentence, and the first wrong elements."""
        tried = self.verdict.tried
        told = f"{tried:,} {_plural('result', tried)}, right"
        if self.right and self.verdict.nans and self.verdict.nans.sentence:
            told += f"; {self.verdict.nans.sentence}"
        elif not self.right:
            told = self.verdict.sentence
        note = f"; {self.note}" if self.note else ""
        who = self.runtime if self.in_model else f"{self.runtime}, its own operator"
        return "\n".join([f"{who}: {told}{note}", *(f"  {one}" for one in self.first)])

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
            "first": [example.as_data() for example in self.first],
            **self.verdict.as_data(),
        }


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The verdicts on a model's rounding nodes, and those nodes that got none."""

    model: str
    verdicts: tuple[NodeVerdict, ...]
    lacking: tuple[NodeLacking, ...] = ()

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit."""
        return all(verdict.right for verdict in self.verdicts)

    def __str__(self) -> str:
        """The whole report: for each node what each runtime does."""
        lines = [self.model]
        for node in dict.fromkeys(verdict.node for verdict in self.verdicts):
            lines += ["", *self._about(node)]
        lines += [""] * bool(self.lacking)
        return "\n".join([*lines, *self._lacking()])

    @property
    def summary(self) -> str:
        """The counts in one line."""
        nodes = len({verdict.node for verdict in self.verdicts})
        runtimes = len({verdict.runtime for verdict in self.verdicts})
        wrong = sum(not verdict.right for verdict in self.verdicts)
        told = f"{wrong} of {len(self.verdicts)} verdicts wrong" if wrong else "right"
        lacking = f"; {len(self.lacking)} not judged" if self.lacking else ""
        return (
            f"{self.model}: {nodes} {_plural('node', nodes)} by {runtimes} "
            f"{_plural('runtime', runtimes)}, {told}{lacking}"
        )

    def _about(self, node: Node) -> Iterator[str]:
        own = [verdict for verdict in self.verdicts if verdict.node == node]
        shape = list(own[0].shape)
        yield f"{node.name}: {node.operator} of {own[0].verdict.dtype.split()[0]} {shape}"
        for verdict in own:
            yield from (f"  {line}" for line in str(verdict).splitlines())

    def _lacking(self) -> Iterator[str]:
        """Nodes that get no verdict, those with the same reason in one line."""
        nodes: dict[str, list[str]] = {}
        for row in self.lacking:
            nodes.setdefault(row.reason, []).append(row.node)
        for reason, names in nodes.items():
            more = f" and {len(names) - FIRST:,} more" if len(names) > FIRST else ""
            yield f"{', '.join(names[:FIRST])}{more}, {reason}"

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "model": self.model,
            "right": self.right,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "lacking": [row.as_data() for row in self.lacking],
        }


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
