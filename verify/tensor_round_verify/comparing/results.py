"""The result of comparing two arrays: the rule that turns one into the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tensor_round.contract.differences.document import Classes, table, which

#: Further rules that the sentence names: there are four other directions.
NAMED = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rule by which ``b`` is ``a`` rounded, exactly or with the fewest differences.

    ``rounding`` is the nearest direction; None if the nearest rule is a formula without one.
    ``models`` are the models of misbehaviour in the rule. ``also`` are equally simple rules with
    as many differences. ``operators`` are the dialects' operators with this direction, as
    text. ``different`` elements of ``b`` differ from the rule's results; ``classes`` counts them.
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
        """Whether an operator gives exactly ``b`` for ``a``."""
        return not (self.different or self.models)

    @property
    def explained(self) -> bool:
        """Whether the rule is right for more than half of the elements."""
        return self.different == 0 or 2 * self.different < self.elements

    @property
    def rule(self) -> str:
        """The rule as text: a direction or a formula, and models."""
        return words([*([self.rounding] if self.rounding else []), *self.models])

    @property
    def sentence(self) -> str:
        """The whole result in one sentence."""
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
        """The result as JSON values."""
        return {
            **asdict(self),
            "exact": self.exact,
            "explained": self.explained,
            "sentence": self.sentence,
        }


def words(names: Sequence[str]) -> str:
    """A list in English: a, b and c."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
