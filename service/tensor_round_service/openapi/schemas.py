"""JSON schemas as values, in the form that client generators understand."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

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


class _Schemas(GenerateJsonSchema):
    """Omits defaults: client generators treat members with a default as required."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def components(*types: Any, mode: JsonSchemaMode = "validation") -> Schema:
    """These types, and those that they refer to, as components of the document."""
    adapters = [(number, mode, TypeAdapter(each)) for number, each in enumerate(types)]
    _, document = TypeAdapter.json_schemas(
        adapters, ref_template=PATH + "{model}", schema_generator=_Schemas
    )
    found: Schema = document["$defs"]
    return found


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
