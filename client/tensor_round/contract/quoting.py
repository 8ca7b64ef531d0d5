"""Quoting others' values and texts: bounded, printable, on one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from .dtypes import BY_NAME, OTHER_NAMES
from .rounding import rounding_named

#: Longer texts are cut, so that no caller can make a response large.
SHOWN_CHARACTERS = 40
#: What arrays of NumPy's other dtypes hold, by the beginning of the dtype's name.
_NO_NUMBERS = {
    "str": "strings",
    "bytes": "byte strings",
    "object": "Python objects",
    "complex": "complex numbers",
    "datetime": "dates",
    "timedelta": "durations",
    "void": "records",
}
#: Longer texts of a server or a runtime are cut.
LINE_CHARACTERS = 1000


def shown(value: object) -> str:
    """A value of a JSON document, as ASCII JSON of at most 40 characters.

    Arrays, objects and very long integers are described, not quoted.
    """
    if isinstance(value, str):
        return _cut(json.dumps(value[:SHOWN_CHARACTERS]), whole=len(value) <= SHOWN_CHARACTERS)
    if isinstance(value, int) and value.bit_length() > 128:
        # Python refuses to format integers of more than 4300 digits.
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"a Python {type(value).__name__}"


def shown_dtype(value: object) -> str:
    """A dtype of a document; one without numbers is named, too, as ``strings ("str32")``."""
    if isinstance(value, str):
        for prefix, held in _NO_NUMBERS.items():
            if value.startswith(prefix):
                return f"{held} ({shown(value)})"
    return shown(value)


def shown_key(key: str) -> str:
    """A key of a JSON document, on one line and encodable, in at most 40 characters."""
    text = key[: SHOWN_CHARACTERS + 1]
    return _cut(text if text.isprintable() else json.dumps(text)[1:-1], whole=True)


def one_line(text: str) -> str:
    """A text of another program, on one line of at most 1,000 printable characters."""
    start = text[: 4 * LINE_CHARACTERS]
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 3]}..."


def printable(document: Any) -> Any:
    """A JSON document of another program, each text in it on :func:`one_line`."""
    if isinstance(document, str):
        return one_line(document)
    if isinstance(document, list):
        return [printable(each) for each in document]
    if isinstance(document, dict):
        return {one_line(key): printable(value) for key, value in document.items()}
    return document


def suggestion(value: object, names: Iterable[str]) -> str:
    """``; did you mean NAME?`` for a name of the same rounding, or of a similar spelling.

    The name of a type is none of a similar one, which may have less precision, or another meaning.
    """
    if not isinstance(value, str) or len(value) > SHOWN_CHARACTERS:
        return ""
    by_lower = {name.lower(): name for name in names}
    meant = rounding_named(value)
    alike = [low for low in by_lower if meant is not None and rounding_named(low) is meant]
    types = {**dict(zip(BY_NAME, BY_NAME, strict=True)), **OTHER_NAMES}
    if (wanted := value.lower()) in types:
        alike = [low for low in by_lower if types.get(low) == types[wanted] is not None]
        return f"; did you mean {by_lower[alike[0]]}?" if alike else ""
    found = alike or get_close_matches(value.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


def not_accepted(
    value: object,
    names: Iterable[str],
    rule: str = "",
    *,
    wrong: str = "",
    listed: Iterable[str] = (),
) -> str:
    """``got VALUE; did you mean NAME? RULE``, the message for a value that is none of ``names``.

    ``wrong`` stands in place of the value. Without a ``rule``, the message lists what is accepted:
    ``listed``, or the names.
    """
    names = tuple(names)
    hint = suggestion(value, names)
    rule = rule or f"{'A' if hint else 'a'}ccepted: {', '.join(listed or names) or 'none'}"
    return f"{wrong or f'got {shown_dtype(value)}'}{hint or ';'} {rule}"


def _cut(text: str, *, whole: bool) -> str:
    if whole and len(text) <= SHOWN_CHARACTERS:
        return text
    return text[: SHOWN_CHARACTERS - 3] + "..."
