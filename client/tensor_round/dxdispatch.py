"""The JSON that DxDispatch, DirectML's own runner, reads, as leniently as it does.

Comments (``//``, ``/* */``) and commas before a closing bracket are passed over. What is left must
be JSON, and is read as strictly as any other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import Fault, InvalidArgument, InvalidDescriptor
from .wire import strictjson

_MAX_DEPTH = 32
#: Strings, in which nothing is a comment, and comments; one that does not end goes to the end.
_STRING_OR_COMMENT = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\.)*+"?)|//[^\n]*+|/\*(?:.*?\*/|.*)', re.DOTALL
)
_STRING_OR_COMMA = re.compile(r'(?P<string>"(?:[^"\\]++|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
#: How JSON of DxDispatch's begins; what begins otherwise is a path.
_JSON = re.compile(r"\s*+(?:[{\[]|//|/\*)")


def read(document: str | bytes | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    """The operator in a document: its text, a path to it, or what was parsed of it.

    A model's only ELEMENT_WISE_ROUND stands for the model. ``Type`` and ``Desc`` of an operator
    come back as ``type`` and ``desc``. Raises :class:`InvalidDescriptor`,
    :class:`MalformedJSON`, and :class:`InvalidArgument` for a file that cannot be read.
    """
    if isinstance(document, os.PathLike) or (
        isinstance(document, str) and document.strip() and not _JSON.match(document)
    ):
        document = _content(Path(document))
    if isinstance(document, str | bytes):
        text = document.encode() if isinstance(document, str) else document
        document = strictjson.loads(_plain(text), max_depth=_MAX_DEPTH)
    if not isinstance(document, Mapping):
        raise InvalidDescriptor.of([Fault((), "directml: must be a JSON object")])
    return _in_lower_case(_find_operator(document))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(
            f"{path} cannot be read: {why}; a text of JSON begins with a brace"
        ) from error


def _plain(text: bytes) -> bytes:
    """The text without what JSON does not have, each character where it was."""
    # Bytes beyond ASCII are kept as they are: nothing that is looked for is made of them.
    characters = text.decode("latin-1")
    for pattern in (_STRING_OR_COMMENT, _STRING_OR_COMMA):
        characters = pattern.sub(lambda m: m["string"] or " " * len(m[0]), characters)
    return characters.encode("latin-1")


def _find_operator(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "dispatchables" not in document:
        return document
    dispatchables = document["dispatchables"]
    found = [
        operator
        for operator in (dispatchables.values() if isinstance(dispatchables, Mapping) else ())
        if isinstance(operator, Mapping)
        and str(operator.get("type")).removeprefix("DML_OPERATOR_") == "ELEMENT_WISE_ROUND"
    ]
    if len(found) != 1:
        rule = f"directml: must have exactly one ELEMENT_WISE_ROUND, got {len(found)}"
        raise InvalidDescriptor.of([Fault(("dispatchables",), rule)])
    return found[0]


def _in_lower_case(operator: Mapping[str, Any]) -> Mapping[str, Any]:
    """``Type`` and ``Desc`` go before the lower-case names, as they do in DxDispatch."""
    upper = {name.lower(): operator[name] for name in ("Type", "Desc") if name in operator}
    return {**operator, **upper}
