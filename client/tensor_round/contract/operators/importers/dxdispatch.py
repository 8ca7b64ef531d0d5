"""DxDispatch's JSON: an operator that rounds, alone or in a model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, cast

from ...errors import InvalidDescriptor, MalformedJSON
from ...wire import strictjson
from ..dialects.directml import (
    DIALECT,
    DirectMLCast,
    DirectMLCeil,
    DirectMLDequantizeLinear,
    DirectMLFloor,
    DirectMLQuantizeLinear,
    DirectMLRound,
)
from ..directml_levels import FeatureLevel
from .sources import only, read_file, refuse_name

#: The longest text, in bytes. A model may include the values of its resources.
MAX_LENGTH = 16 << 20
_MAX_DEPTH = 32
#: Objects and arrays, and members of objects. Most of a large text are the numbers of resources.
_MAX_CONTAINERS = _MAX_MEMBERS = 1 << 16

#: A string or a comment; an unterminated one extends to the end of the text.
_STRING_OR_COMMENT = re.compile(strictjson.STRING + rb"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
#: A string, or a comma between a value and the end of its object or array.
_STRING_OR_LAST_COMMA = re.compile(
    strictjson.STRING + rb"|(?<![\s\[{,:])\s*,(?=\s*[}\]])", re.DOTALL
)


Read = (
    DirectMLRound
    | DirectMLFloor
    | DirectMLCeil
    | DirectMLCast
    | DirectMLQuantizeLinear
    | DirectMLDequantizeLinear
)


def from_dxdispatch(
    document: str | bytes | os.PathLike[str] | Mapping[str, Any],
    feature_level: FeatureLevel | None = None,
    *,
    name: str | None = None,
) -> Read:
    """Read the operator and the tensors in DxDispatch's JSON.

    ``document`` is an operator (``type`` and ``desc``), or a model with ``dispatchables``: JSON
    text, the parsed object, or the path of a file (a ``str`` without ``{`` and ``[``). Read are
    ELEMENT_WISE_ROUND, _FLOOR, _CEIL, _QUANTIZE_LINEAR and _DEQUANTIZE_LINEAR, and CAST. ``name``
    chooses one of several; without it, an ELEMENT_WISE_ROUND is chosen if it is the only one.
    ``feature_level`` is 4_1 for CAST by default, 6_2 for a quantization, else 3_0. Comments,
    trailing commas, ``Type`` and ``Desc`` are accepted, as by DxDispatch; 16 MiB and 65,536 objects
    and arrays at most.

    Raises :class:`InvalidDescriptor` for an operator or tensor that breaks a rule,
    :class:`MalformedJSON`, and :class:`InvalidArgument` for a file that cannot be read.
    """
    parsed = parsed_document(document)
    if "dispatchables" not in parsed:
        refuse_name(name)
        return operator_in(parsed, feature_level)
    found = operators_that_round(parsed)
    return operator_in(only(found, name, ("dispatchables",), "directml", is_round), feature_level)


def operator_in(operator: Mapping[str, Any], feature_level: FeatureLevel | None = None) -> Read:
    """The operator of a parsed one; raises :class:`InvalidDescriptor`."""
    fields = {key.lower(): operator[key] for key in _FIELDS & set(operator)}
    for name in ("Type", "Desc"):
        if {name, name.lower()} <= set(operator):
            raise InvalidDescriptor.at((name,), f"directml: there is a {name.lower()}, too")
    if feature_level is None:
        feature_level = _LEVELS.get(_kind(operator), "3_0")
    stated: Any = DIALECT.read({"feature_level": feature_level, **fields})
    stated.resolve()
    made = cast(Any, DIALECT.operator_of(stated).object.of(stated))
    names = (name for name in type(stated.desc).model_fields if name.endswith("Tensor"))
    return cast(Read, replace(made, tensors=tuple(getattr(stated.desc, name) for name in names)))


#: The feature levels of the operators' objects.
_LEVELS = {
    operator.name: signature(operator.object).parameters["feature_level"].default
    for operator in DIALECT.operators
}


_QUOTE = ord('"')
_FIELDS = {"type", "Type", "desc", "Desc"}


def parsed_document(
    document: str | bytes | os.PathLike[str] | Mapping[str, Any],
) -> Mapping[str, Any]:
    """The JSON as an object; raises as :func:`from_dxdispatch`."""
    if isinstance(document, str) and document and "{" not in document and "[" not in document:
        document = Path(document)
    if isinstance(document, os.PathLike):
        document = read_file(Path(document), MAX_LENGTH)
    if isinstance(document, str):
        document = document.encode(errors="surrogatepass")
    parsed: object = document
    if isinstance(document, bytes):
        if len(document) > MAX_LENGTH:
            raise MalformedJSON(f"the JSON has more than {MAX_LENGTH} bytes")
        parsed = strictjson.loads(
            _plain_json(document),
            max_depth=_MAX_DEPTH,
            max_containers=_MAX_CONTAINERS,
            max_members=_MAX_MEMBERS,
        )
    if not isinstance(parsed, Mapping):
        raise InvalidDescriptor.at((), "directml: must be a JSON object")
    return parsed


def _plain_json(text: bytes) -> bytes:
    bare = strictjson.replaced(_STRING_OR_COMMENT, text, b" ", keep=_QUOTE)
    return strictjson.replaced(_STRING_OR_LAST_COMMA, bare, b"", keep=_QUOTE)


def operators_that_round(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The operators among a model's dispatchables that can be read, by their names."""
    dispatchables = document.get("dispatchables")
    return [
        (name, operator)
        for name, operator in (dispatchables.items() if isinstance(dispatchables, Mapping) else ())
        if isinstance(operator, Mapping) and _kind(operator) in _KINDS
    ]


def is_round(operator: Mapping[str, Any]) -> bool:
    """Whether this is ELEMENT_WISE_ROUND."""
    return _kind(operator) == "ELEMENT_WISE_ROUND"


_KINDS = {operator.name for operator in DIALECT.operators}


def _kind(operator: Mapping[str, Any]) -> str:
    return str(operator.get("type", operator.get("Type"))).removeprefix("DML_OPERATOR_")
