"""Quoting callers' values in error messages: bounded, printable, on one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches

from .rounding import rounding_named

#: Longer texts are cut, so that no caller can make a response large.
SHOWN_CHARACTERS = 40


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


def shown_key(key: str) -> str:
    """A key of a JSON document, on one line and encodable, in at most 40 characters."""
    text = key[: SHOWN_CHARACTERS + 1]
    return _cut(text if text.isprintable() else json.dumps(text)[1:-1], whole=True)


def suggestion(value: object, names: Iterable[str]) -> str:
    """``; did you mean NAME?`` for a name of the same rounding, or of a similar spelling."""
    if not isinstance(value, str) or len(value) > SHOWN_CHARACTERS:
        return ""
    by_lower = {name.lower(): name for name in names}
    meant = rounding_named(value)
    alike = [low for low in by_lower if meant is not None and rounding_named(low) is meant]
    found = alike or get_close_matches(value.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


def _cut(text: str, *, whole: bool) -> str:
    if whole and len(text) <= SHOWN_CHARACTERS:
        return text
    return text[: SHOWN_CHARACTERS - 3] + "..."
