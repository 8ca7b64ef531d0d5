"""JSON schemas as values, in the form that client generators understand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
#: The content of a body that is bytes.
BINARY: Schema = {"schema": {"type": "string", "format": "binary"}}
#: The reference to a component, before its name.
PATH = "#/components/schemas/"


def ref(name: str) -> Schema:
    """A reference to a component of the document."""
    return {"$ref": PATH + name}


def array_of(items: Schema, **bounds: int) -> Schema:
    """An array of items of one kind."""
    return {"type": "array", "items": items, **bounds}


def any_of(*schemas: Schema, **others: Any) -> Schema:
    """A value of one of several kinds."""
    return {**others, "anyOf": [*schemas]}


def component(
    title: str, description: str, required: Iterable[str], properties: Schema, **others: Any
) -> dict[str, Schema]:
    """An object as a component of the document, by its name."""
    return {
        title: {
            "title": title,
            "description": description,
            "type": "object",
            "required": [*required],
            **others,
            "properties": properties,
        }
    }


def parameter(
    name: str, place: str, schema: Schema, description: str = "", *, required: bool = False
) -> Schema:
    """A parameter of an operation: in its path, its query or its headers."""
    return {
        "name": name,
        "in": place,
        **({"description": description} if description else {}),
        **({"required": True} if required else {}),
        "schema": schema,
    }
