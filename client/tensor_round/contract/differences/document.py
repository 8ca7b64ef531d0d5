"""The response of ``POST /compare`` as values: the differences of rounding directions."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ..dtypes import BY_NAME
from ..errors import ProtocolViolation
from ..operators.registry import operators_on
from ..quoting import one_line

#: Elements that are listed for each class.
FIRST = 3


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an element: its shortest exact decimal, and its pattern in hexadecimal."""

    value: str
    bits: str

    @classmethod
    def of(cls, dtype: str, bits: int) -> Value:
        """The value of a pattern."""
        return cls(value_text(dtype, bits), bits_text(dtype, bits))

    def __str__(self) -> str:
        return f"{self.value} ({self.bits})" if self.value == "NaN" else self.value


@dataclass(frozen=True, slots=True)
class Element:
    """One element with its index, and its results by rounding direction."""

    index: tuple[int, ...]
    x: Value
    results: dict[str, Value]

    def __str__(self) -> str:
        results = ", ".join(f"{name} {value}" for name, value in self.results.items())
        return f"{list(self.index)}: x {self.x}, {results}"


@dataclass(frozen=True, slots=True)
class ClassDifference:
    """The number of differing elements of one class, and the first of them in C order.

    ``name`` is the plural of the class in English.
    """

    name: str
    different: int
    first: tuple[Element, ...]


#: Differences by the label of the class.
Classes = dict[str, ClassDifference]


@dataclass(frozen=True, slots=True)
class PairDifference:
    """The differences of two roundings' results, by class of elements."""

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
    """The differences of the rounding directions on one tensor.

    ``operators`` are the dialects' operators that accept the tensor, as text, by their direction.
    ``pairs`` has each pair of directions once.
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
            raise ProtocolViolation(
                f"the response is not a comparison: {one_line(where)}"
            ) from None

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
                (
                    " and ".join(pair.roundings),
                    f"{pair.different:,}",
                    which(pair.classes)[2:] if pair.different else "",
                )
                for pair in self.pairs
            ),
        )


@lru_cache(maxsize=1)
def adapter() -> TypeAdapter[Differences]:
    """The validator of the document, with its JSON schema."""
    return TypeAdapter(Differences)


def which(classes: Classes) -> str:
    """The classes of the differing elements, and the first element, as the end of a sentence."""
    found = list(classes.values())
    if len(found) == 1 and found[0].different > 1:
        text = f"all {found[0].name}"
    else:
        counts = (f"{row.different:,}{' of the' * (row.different == 1)}" for row in found)
        text = ", ".join(f"{count} {row.name}" for count, row in zip(counts, found, strict=True))
    element = min((e for row in found for e in row.first), key=attrgetter("index"))
    return f", {text}; first {element}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """An HTML table for notebooks."""

    def row(cells: Iterable[str], tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return f"<table><tr>{row(head, 'th')}</tr>{body}</table>"


def joined(
    parts: Iterable[tuple[int, Differences]], dtype: str, shape: tuple[int, ...]
) -> Differences:
    """The differences on a tensor, joined from those on its flat parts with their offsets."""
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
    """The index of the ``place``-th element in C order."""
    return tuple(int(i) for i in np.unravel_index(place, shape))


def _placed(part: Differences, start: int, shape: tuple[int, ...]) -> Differences:
    """A part, with its elements' indices in the whole tensor."""

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


def bits_text(dtype: str, bits: int) -> str:
    """The pattern in hexadecimal, all digits of its width."""
    return f"{bits:#0{BY_NAME[dtype].width // 4 + 2}x}"


def value_text(dtype: str, bits: int) -> str:
    """The shortest decimal of the pattern's value; for narrow dtypes the exact one."""
    row = BY_NAME[dtype]
    one = np.array([bits], row.bits).view(row.numpy)
    if not row.is_float:
        return str(one[0])
    with np.errstate(invalid="ignore"):  # ml_dtypes converts a signalling NaN
        is_nan = np.isnan(one)[0]
    if is_nan:
        return "NaN"
    number: np.floating = one[0] if np.issubdtype(one.dtype, np.floating) else np.float64(one[0])
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-4 <= abs(float(number)) < 1e17:
        return np.format_float_positional(number, trim="0")
    return np.format_float_scientific(number, trim="0")
