"""``POST /round`` in the OpenAPI document: three representations of one operation."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tensor_round import operators
from tensor_round.errors import REFUSALS
from tensor_round.operators.text import SPELLINGS
from tensor_round.rounding import Rounding
from tensor_round.wire import native

from .errors import SCHEMAS_PATH, problem_responses

BINARY = {"schema": {"type": "string", "format": "binary"}}

_DESCRIPTOR: dict[str, Any] = {
    "dialect": "ieee754",
    "rounding": "ties_to_even",
    "input": {"dtype": "float32", "shape": [4]},
}
REQUEST = {"descriptor": _DESCRIPTOR, "data": [0.5, 1.5, -0.3, 2.5]}
_RESPONSE = {"output": {"dtype": "float32", "shape": [4]}, "data": [0.0, 2.0, -0.0, 2.0]}

_NUMBER: list[dict[str, Any]] = [
    {"type": "number"},
    {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
]
_NUMBERS: dict[str, Any] = {
    "description": "Numbers, nested as the shape or flat; a tensor of rank 0 is one number.",
    # Of one another's kind all the way down, which generators of clients cannot follow.
    "anyOf": [
        *_NUMBER,
        {"type": "array", "items": {"anyOf": [*_NUMBER, {"type": "array", "items": {}}]}},
    ],
}


class _DescriptorSchema(GenerateJsonSchema):
    """pydantic's, without defaults: what has one is required, to generators of clients."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schemas() -> dict[str, Any]:
    """The components that the operation refers to: the descriptors' models, and the JSON form."""
    descriptor = TypeAdapter(operators.Descriptor).json_schema(
        ref_template=SCHEMAS_PATH + "{model}", schema_generator=_DescriptorSchema
    )
    return {
        **descriptor.pop("$defs"),
        "Descriptor": descriptor,
        "RoundRequest": {
            "title": "RoundRequest",
            "description": "An operator and the numbers to round.",
            "type": "object",
            "required": ["descriptor", "data"],
            "additionalProperties": False,
            "properties": {
                "descriptor": {"$ref": SCHEMAS_PATH + "Descriptor"},
                "data": _NUMBERS,
            },
        },
        "RoundResponse": {
            "title": "RoundResponse",
            "description": "The rounded numbers.",
            "type": "object",
            "required": ["output", "data"],
            "properties": {
                "output": {"$ref": SCHEMAS_PATH + "RoundedTensor"},
                "data": _NUMBERS,
            },
        },
        "RoundedTensor": {
            "title": "RoundedTensor",
            "description": "The type and the sizes of the output.",
            "type": "object",
            "required": ["dtype", "shape"],
            "properties": {
                "dtype": {"type": "string"},
                "shape": {"type": "array", "items": {"type": "integer"}},
            },
        },
    }


def operation() -> dict[str, Any]:
    """The operation."""
    return {
        "tags": ["round"],
        "operationId": "round",
        "summary": "Round every element of a tensor",
        "description": (
            "Three forms of one operation, told apart by Content-Type; the response has the form "
            "of the request. As JSON, operator and numbers are one document. As octet-stream, "
            "the operator is the header Operator-Descriptor and the body the tensor's bytes, "
            "little-endian. As x-npy, the body is a .npy file. Content-Encoding may be identity, "
            "gzip or deflate.\n\nThe response has -0.0 where IEEE 754 does (-0.3 rounds to it); "
            "browsers, this page too, show it as 0."
        ),
        "parameters": PARAMETERS,
        "requestBody": {
            "required": True,
            "content": {
                native.JSON: {
                    "schema": {"$ref": SCHEMAS_PATH + "RoundRequest"},
                    "example": REQUEST,
                },
                native.OCTET_STREAM: BINARY,
                native.NPY: BINARY,
            },
        },
        "responses": {"200": _ROUNDED, **problem_responses(CODES)},
    }


#: All but those of other paths and methods, and of faults of the service's own.
CODES = [code for code, kind in REFUSALS.items() if kind.status not in (404, 405, 500)]

PARAMETERS: list[dict[str, Any]] = [
    {
        "name": native.OPERATOR_DESCRIPTOR,
        "in": "header",
        "description": (
            "With application/octet-stream alone: the JSON of a `Descriptor` (see Schemas), as "
            f"`{json.dumps(_DESCRIPTOR)}`."
        ),
        # With content, or with contentMediaType, generators of clients leave it out, and Swagger
        # UI asks for a file.
        "schema": {"type": "string", "examples": [json.dumps(_DESCRIPTOR)]},
    },
    {
        "name": "operator",
        "in": "query",
        "description": f"With application/x-npy: the operator as one word, {SPELLINGS}; "
        "ties_to_even if not given.",
        "schema": {"type": "string"},
    },
    {
        "name": "rounding",
        "in": "query",
        "description": "With application/x-npy: the direction, in place of `operator`.",
        "schema": {"type": "string", "enum": [r.value for r in Rounding]},
    },
    {
        "name": "dtype",
        "in": "query",
        "description": "With application/x-npy: the type of elements that the file calls V1 or V2.",
        "schema": {"type": "string", "enum": ["bfloat16", "float8_e4m3fn", "float8_e5m2"]},
    },
    {
        "name": native.CONTENT_DIGEST,
        "in": "header",
        "description": "RFC 9530: `sha-256=:...:` of the body, which is then verified.",
        "schema": {"type": "string"},
    },
    {
        "name": native.WANT_CONTENT_DIGEST,
        "in": "header",
        "description": "RFC 9530: `sha-256=1` asks for the response's digest.",
        "schema": {"type": "string"},
    },
]

HEADERS: dict[str, Any] = {
    native.OUTPUT_DESCRIPTOR: {
        "description": "octet-stream only: dtype, shape, strides and byte_length, as JSON.",
        "schema": {"type": "string"},
    },
    native.EXECUTION_BACKEND: {"schema": {"type": "string", "enum": ["numpy", "cupy"]}},
    native.SERVER_TIMING: {
        "description": "Milliseconds to receive, queue and execute.",
        "schema": {"type": "string"},
    },
    native.REQUEST_ID: {"schema": {"type": "string"}},
    native.CONTENT_DIGEST: {"schema": {"type": "string"}},
}

_ROUNDED: dict[str, Any] = {
    "description": "The rounded tensor, in the form of the request.",
    "headers": HEADERS,
    # Some generators read every response of a status as the first form: bytes hold all three.
    "content": {
        native.OCTET_STREAM: BINARY,
        native.JSON: {
            "schema": {"$ref": SCHEMAS_PATH + "RoundResponse"},
            "example": _RESPONSE,
        },
        native.NPY: BINARY,
    },
}
