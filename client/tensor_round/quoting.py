"""A caller's own values, as an error message may show them."""

from __future__ import annotations

import json

#: Longer texts are cut: a message is for people, and no way to make an answer large.
SHOWN_CHARACTERS = 40


def shown(value: object) -> str:
    """A value of a JSON document, as JSON and in ASCII, in at most 40 characters.

    Arrays and objects are only named, and integers too long to read are measured.
    """
    if isinstance(value, str):
        return _cut(json.dumps(value[:SHOWN_CHARACTERS]), whole=len(value) <= SHOWN_CHARACTERS)
    if isinstance(value, int) and value.bit_length() > 128:
        # Python refuses to write integers of more than 4300 digits at all.
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"a Python {type(value).__name__}"


def shown_key(key: str) -> str:
    """A key of a JSON document, on one line, fit to be encoded, in at most 40 characters."""
    text = key[: SHOWN_CHARACTERS + 1]
    return _cut(text if text.isprintable() else json.dumps(text)[1:-1], whole=True)


def _cut(text: str, *, whole: bool) -> str:
    if whole and len(text) <= SHOWN_CHARACTERS:
        return text
    return text[: SHOWN_CHARACTERS - 3] + "..."
