"""Which fields of a descriptor are required, as docs/descriptors.md says it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tensor_round.clients.execution import read_descriptor
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.registry import DIALECTS

PAGE = (Path(__file__).parents[4] / "docs/descriptors.md").read_text()
#: The examples of the page, by dialect; the short form has none.
EXAMPLES: dict[str, dict[str, Any]] = {
    document.get("dialect", "short form"): document
    for document in map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.S))
}
_TABLE = PAGE.partition("| dialect | optional |")[2].partition("\n\n")[0]
OPTIONAL = {
    dialect: set(re.findall(r"`([\w.]+)`", fields))
    for dialect, fields in re.findall(r"^\| `(\w+)` \| (.*) \|$", _TABLE, re.M)
}


def paths(document: dict[str, Any], *above: str) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        yield *above, name
        if isinstance(value, dict):
            yield from paths(value, *above, name)


def without(document: dict[str, Any], path: tuple[str, ...]) -> bytes:
    changed = deepcopy(document)
    *above, last = path
    holder = changed
    for name in above:
        holder = holder[name]
    del holder[last]
    return json.dumps(changed).encode()


def test_every_dialect_has_an_example() -> None:
    assert EXAMPLES.keys() == {*DIALECTS, "short form"}
    assert OPTIONAL.keys() < EXAMPLES.keys()


@pytest.mark.parametrize(
    ("dialect", "path"),
    [(dialect, path) for dialect, document in EXAMPLES.items() for path in paths(document)],
    ids=lambda value: value if isinstance(value, str) else ".".join(value),
)
def test_a_field_is_required_unless_the_page_says_that_it_is_not(
    dialect: str, path: tuple[str, ...]
) -> None:
    text = without(EXAMPLES[dialect], path)
    if ".".join(path) in OPTIONAL.get(dialect, ()):
        read_descriptor(text)
    else:
        with pytest.raises(InvalidDescriptor):
            read_descriptor(text)
