"""Where the rounding directions differ on a tensor: what ``POST /compare`` responds, as values."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ..errors import ProtocolViolation
from ..operators.text import operators_on

#: Elements listed of each class.
FIRST = 3


@dataclass(frozen=True, slots=True)
class Value:
    """An element: the shortest decimal that stands for it, and its bits in hexadecimal."""

    value: str
    bits: str

    def __str__(self) -> str:
        return f"{self.value} ({self.bits})" if self.value == "NaN" else self.value


@dataclass(frozen=True, slots=True)
class Element:
    """One element, by its index, and what becomes of it, by what rounds it."""

    index: tuple[int, ...]
    x: Value
    results: dict[str, Value]

    def __str__(self) -> str:
        results = ", ".join(f"{name} {value}" for name, value in self.results.items())
        return f"{list(self.index)}: x {self.x}, {results}"


@dataclass(frozen=True, slots=True)
class ClassDifference:
    """How many elements of one class differ, and the first of them, in C order.

    ``name`` is what such elements are called in a sentence.
    """

    name: str
    different: int
    first: tuple[Element, ...]


#: Differences by the label of their class.
Classes = dict[str, ClassDifference]


@dataclass(frozen=True, slots=True)
class PairDifference:
    """In how many elements the results of two ``roundings`` differ, by class."""

    roundings: tuple[str, ...]
    different: int
    classes: Classes

    def __str__(self) -> str:
        names = " and ".join(self.roundings)
        if not self.different:
            return f"{names} do not differ"
        elements = "element" if self.different == 1 else "elements"
        return f"{names} differ in {self.different:,} {elements}{which(self.classes)}"


@dataclass(frozen=True, slots=True)
class Differences:
    """Where the dialects' operators, and the rounding directions, differ on one tensor.

    ``operators`` are those of the dialects that take the tensor, in one word each, by the
    direction in which they round. ``pairs`` has each pair of directions once.
    """

    dtype: str
    shape: tuple[int, ...]
    elements: int
    operators: dict[str, tuple[str, ...]]
    pairs: tuple[PairDifference, ...]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Differences:
        """The value of a JSON document; raises :class:`ProtocolViolation` for another one."""
        try:
            return adapter().validate_python(data)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise ProtocolViolation(f"the answer is no comparison: {where}") from None

    def as_data(self) -> dict[str, Any]:
        """The JSON document."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.dtype} of shape {list(self.shape)}: {self.elements:,} elements"]
        lines += [f"{name}: {', '.join(words)}" for name, words in self.operators.items() if words]
        return "\n".join([*lines, "", *map(str, self.pairs)])

    def _repr_html_(self) -> str:
        return table(
            ("operators", "differ in", "which"),
            (
                (" and ".join(pair.roundings), f"{pair.different:,}", which(pair.classes)[2:])
                for pair in self.pairs
            ),
        )


@lru_cache(maxsize=1)
def adapter() -> TypeAdapter[Differences]:
    """What reads the document, and knows its schema."""
    return TypeAdapter(Differences)


def which(classes: Classes) -> str:
    """Of which classes elements are, and the first element: what a sentence ends in."""
    found = list(classes.values())
    if len(found) == 1 and found[0].different > 1:
        told = f"all {found[0].name}"
    else:
        counts = (f"{row.different:,}{' of the' * (row.different == 1)}" for row in found)
        told = ", ".join(f"{count} {row.name}" for count, row in zip(counts, found, strict=True))
    element = min((e for row in found for e in row.first), key=attrgetter("index"))
    return f", {told}; first {element}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in HTML, for notebooks."""

    def row(cells: Iterable[str], tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return f"<table><tr>{row(head, 'th')}</tr>{body}</table>"


def joined(
    parts: Iterable[tuple[int, Differences]], dtype: str, shape: tuple[int, ...]
) -> Differences:
    """The differences of a tensor from those of its flat parts, each with where it begins."""
    ordered = [_placed(part, start, shape) for start, part in sorted(parts, key=itemgetter(0))]
    pairs = tuple(
        PairDifference(
            rows[0].roundings,
            sum(row.different for row in rows),
            _joined_classes([row.classes for row in rows]),
        )
        for rows in zip(*(part.pairs for part in ordered), strict=True)
    )
    elements = sum(part.elements for part in ordered)
    return Differences(dtype, shape, elements, operators_on(dtype, shape), pairs)


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element by its place in C order."""
    return tuple(int(i) for i in np.unravel_index(place, shape))


def _placed(part: Differences, start: int, shape: tuple[int, ...]) -> Differences:
    """A part with the indices that its elements have in the whole."""

    def moved(row: ClassDifference) -> ClassDifference:
        elements = (replace(e, index=index_of(start + e.index[0], shape)) for e in row.first)
        return replace(row, first=tuple(elements))

    pairs = (
        replace(pair, classes={label: moved(row) for label, row in pair.classes.items()})
        for pair in part.pairs
    )
    return replace(part, pairs=tuple(pairs))


def _joined_classes(parts: list[Classes]) -> Classes:
    found: Classes = {}
    for label, row in (item for classes in parts for item in classes.items()):
        before = found.get(label, ClassDifference(row.name, 0, ()))
        first = (*before.first, *row.first)[:FIRST]
        found[label] = ClassDifference(row.name, before.different + row.different, first)
    return found
