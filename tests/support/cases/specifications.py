"""The examples and tables of the operators' specifications, of all dialects."""

from __future__ import annotations

from support.cases.descriptors import CASES as DIALECT_CASES
from support.cases.dialect import Example

EXAMPLES: dict[str, Example] = {
    f"{dialect}, {name}": example
    for dialect, cases in DIALECT_CASES.items()
    for name, example in cases.examples.items()
}
#: Name of an example, and each dtype that it is for.
CASES = [(name, dtype) for name, example in EXAMPLES.items() for dtype in example.dtypes]


def shapes_of(example: Example) -> tuple[tuple[int, ...], ...]:
    """Every shape that an example comes in."""
    return example.shapes or ((len(example.source),),)
