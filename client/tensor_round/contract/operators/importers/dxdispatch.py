"""DxDispatch's JSON: an operator, or a model with a single rounding operator."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ...errors import Fault, InvalidArgument, InvalidDescriptor, MalformedJSON
from ...wire import strictjson
from ..dialects.directml import DirectMLDescriptor, DirectMLMode, DirectMLRound, FeatureLevel

#: The longest text, in bytes. A model may include the values of its resources.
MAX_LENGTH = 16 << 20
_MAX_DEPTH = 32

#: A string or a comment; an unterminated one extends to the end of the text.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
#: A string, or a comma between a value and the end of its object or array.
_STRING_OR_LAST_COMMA = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\Z)|(?<![\s\[{,:])\s*,(?=\s*[}\]])', re.DOTALL
)


def from_dxdispatch(
    document: str | bytes | os.PathLike[str] | Mapping[str, Any],
    feature_level: FeatureLevel = "3_0",
) -> DirectMLRound:
    """Read the operator and the tensors in DxDispatch's JSON.

    ``document`` is the JSON, as text or parsed, or the path of its file (a ``str`` without
    ``{`` and ``[`` is a path). It is an operator (``type`` and ``desc``), or a model whose
    ``dispatchables`` have one rounding operator. Comments, trailing commas, and ``Type`` and
    ``Desc`` are accepted, as DxDispatch accepts them.

    The returned operator's ``.descriptor()`` has both tensors as the JSON states them;
    ``.descriptor(dtype, shape)`` is for another, packed tensor. Raises
    :class:`InvalidDescriptor` for an operator or tensor that breaks a rule,
    :class:`MalformedJSON`, and :class:`InvalidArgument` for a file that cannot be read.
    """
    operator = _find_operator(_parsed(document))
    fields = {key.lower(): operator[key] for key in _FIELDS & set(operator)}
    for name in ("Type", "Desc"):
        if {name, name.lower()} <= set(operator):
            raise _refusal((name,), f"directml: there is a {name.lower()}, too")
    stated = DirectMLDescriptor.read({"feature_level": feature_level, **fields})
    stated.resolve()
    tensors = stated.desc.InputTensor, stated.desc.OutputTensor
    return DirectMLRound(
        cast(DirectMLMode, stated.desc.RoundingMode),
        cast(FeatureLevel, stated.feature_level),
        tensors=tensors,
    )


_FIELDS = {"type", "Type", "desc", "Desc"}


def _parsed(document: str | bytes | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(document, str) and document and "{" not in document and "[" not in document:
        document = Path(document)
    if isinstance(document, os.PathLike):
        document = _read(Path(document))
    if isinstance(document, bytes):
        try:
            document = document.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedJSON(f"the JSON is not UTF-8 at byte {error.start}") from None
    parsed: object = document
    if isinstance(document, str):
        parsed = strictjson.loads(_plain_json(document).encode(), max_depth=_MAX_DEPTH)
    if not isinstance(parsed, Mapping):
        raise _refusal((), "directml: must be a JSON object")
    return parsed


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_LENGTH + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the file {path} cannot be read: {reason}") from error
    return text


def _plain_json(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise MalformedJSON(f"the JSON has more than {MAX_LENGTH} bytes")
    bare = _STRING_OR_COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)
    return _STRING_OR_LAST_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else "", bare)


def _find_operator(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "dispatchables" not in document:
        return document
    dispatchables = document["dispatchables"]
    found = [
        operator
        for operator in (dispatchables.values() if isinstance(dispatchables, Mapping) else ())
        if isinstance(operator, Mapping) and _is_round(operator.get("type", operator.get("Type")))
    ]
    if len(found) != 1:
        rule = f"directml: must have exactly one ELEMENT_WISE_ROUND, got {len(found)}"
        raise _refusal(("dispatchables",), rule)
    return found[0]


def _is_round(name: object) -> bool:
    return str(name).removeprefix("DML_OPERATOR_") == "ELEMENT_WISE_ROUND"


def _refusal(loc: tuple[str, ...], rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.of([Fault(loc, rule)])
