"""The dialects' cases, ways to vary their examples, and what became of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from support.cases.dialect import ABSENT, DialectCases, Document, Example
from tensor_round.contract.call import RoundCall
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.registry import DIALECTS, resolve_json
from tensor_round.contract.rounding import Rounding

#: What is expected of each dialect; one without a file fails here.
CASES: dict[str, DialectCases] = {
    name: import_module(f"support.cases.dialects.{name}").CASES for name in DIALECTS
}
#: The operators of all dialects but ieee754, as one word, by their directions.
WORDS: dict[str, tuple[str, ...]] = {
    rounding.value: tuple(
        f"{name}:{mode}" if mode else name
        for name, cases in CASES.items()
        if name != "ieee754"
        for mode, direction in (cases.modes or {"": Rounding.TIES_TO_EVEN}).items()
        if direction is rounding
    )
    for rounding in Rounding
}
#: The examples of the published contract, word for word.
EXAMPLES: dict[str, Document] = {name: cases.example for name, cases in CASES.items()}

#: The examples and tables of the operators' specifications.
NUMBERS: dict[str, Example] = {
    f"{dialect}, {name}": example
    for dialect, cases in CASES.items()
    for name, example in cases.examples.items()
}


def paths(document: Document, *above: str) -> Iterator[str]:
    """The dotted path of each field."""
    for name, value in document.items():
        yield ".".join((*above, name))
        if isinstance(value, dict):
            yield from paths(value, *above, name)


def varied(dialect: str, changes: dict[str, Any]) -> Document:
    """The dialect's example with fields set, at dotted paths; ``ABSENT`` removes one."""
    document = copy.deepcopy(EXAMPLES[dialect])
    for path, value in changes.items():
        *parents, field = path.split(".")
        place = document
        for parent in parents:
            place = place[parent]
        if value is ABSENT:
            del place[field]
        else:
            place[field] = value
    return document


def resolved(document: object) -> RoundCall:
    """The call that a document stands for, by the way of its JSON text."""
    return resolve_json(json.dumps(document).encode())


def faults(document: object) -> dict[str, str]:
    """Why a document is refused: messages by dotted path. Fails where it is accepted."""
    try:
        call = resolved(document)
    except InvalidDescriptor as refusal:
        return {".".join(map(str, fault.loc)): fault.msg for fault in refusal.faults}
    raise AssertionError(f"accepted: {call}")
