"""What turns one array into another: the result of comparing two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...messages.differences import Classes, table, which

#: Rules beside the first that a sentence names: there are four directions beside one.
NAMED = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """By which rule ``b`` is ``a`` rounded, or nearly so, and what it leaves unexplained.

    ``rounding`` is the direction that comes nearest, or None where a formula does that has none;
    ``models`` are the models of misbehaviour that come with it. ``also`` are other rules that are
    as simple and leave as many elements unexplained. ``operators`` are those of the dialects that
    round so, in one word each. In ``different`` elements ``b`` is something else; ``classes`` has
    them by class.
    """

    dtype: str
    shape: tuple[int, ...]
    elements: int
    rounding: str | None
    models: tuple[str, ...]
    also: tuple[str, ...]
    operators: tuple[str, ...]
    different: int
    classes: Classes

    @property
    def exact(self) -> bool:
        """Whether an operator turns ``a`` into ``b``, to the bit."""
        return not (self.different or self.models)

    @property
    def explained(self) -> bool:
        """Whether the rule holds for more than half of the elements."""
        return self.different == 0 or 2 * self.different < self.elements

    @property
    def rule(self) -> str:
        """The rule in words: a direction or a formula, and models."""
        return words([*([self.rounding] if self.rounding else []), *self.models])

    @property
    def sentence(self) -> str:
        """The whole of it, in a sentence."""
        told = f"b is a under {self.rule}"
        if not self.explained:
            told = f"no operator and no named model turns a into b; nearest is {self.rule}"
        if self.different:
            elements = "element" if self.elements == 1 else "elements"
            told += f", but for {self.different:,} of {self.elements:,} {elements}"
            told += which(self.classes)
        if not self.also or not self.explained:
            return told
        more = [f"{len(self.also) - NAMED:,} more"] if len(self.also) > NAMED else []
        others = words([*self.also[:NAMED], *more])
        return f"{told}; {others} would {'leave as many' if self.different else 'do the same'}"

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.operators and self.explained:
            lines.append(f"operators: {', '.join(self.operators)}")
        for row in self.classes.values():
            lines += [f"  {row.name}: {row.different:,}", *(f"    {e}" for e in row.first)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (row.name, f"{row.different:,}", str(element))
            for row in self.classes.values()
            for element in row.first
        ]
        return table((self.sentence,), ()) + (
            table(("class", "different", "element"), rows) if rows else ""
        )

    def as_data(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            **asdict(self),
            "exact": self.exact,
            "explained": self.explained,
            "sentence": self.sentence,
        }


def words(names: Sequence[str]) -> str:
    """Names in a row: a, b and c."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
