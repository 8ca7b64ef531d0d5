"""``POST /round`` in the OpenAPI document: three representations of one operation."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tensor_round.contract import operators
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import REFUSALS
from tensor_round.contract.operators.text import SPELLINGS
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.wire import native

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
    # The inner type would be recursive, which client generators do not support.
    "anyOf": [
        *_NUMBER,
        {"type": "array", "items": {"anyOf": [*_NUMBER, {"type": "array", "items": {}}]}},
    ],
}


class _DescriptorSchema(GenerateJsonSchema):
    """Omits defaults: client generators treat members with a default as required."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schemas() -> dict[str, Any]:
    """The components for the operation: the descriptors, and the JSON representation."""
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
        "ShortRoundRequest": {
            "title": "ShortRoundRequest",
            "description": "An operator in one word, or by dialect and attributes, and the numbers "
            "of a packed tensor. The query may have the operator; the shape is by default the "
            "data's.",
            "type": "object",
            "required": ["dtype", "data"],
            "additionalProperties": False,
            "properties": {
                "operator": {"anyOf": [{"type": "string"}, {"type": "object"}]},
                "dtype": {"type": "string", "enum": [dtype.name for dtype in DTYPES]},
                "shape": {"type": "array", "items": {"type": "integer"}},
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
            "description": "Dtype and shape of the output.",
            "type": "object",
            "required": ["dtype", "shape"],
            "properties": {
                "dtype": {"type": "string"},
                "shape": {"type": "array", "items": {"type": "integer"}},
            },
        },
    }


def operation() -> dict[str, Any]:
    """The OpenAPI operation of ``POST /round``."""
    return {
        "tags": ["round"],
        "operationId": "round",
        "summary": "Round every element of a tensor",
        "description": (
            "The Content-Type selects one of three representations; the response has the "
            "representation of the request. JSON: operator and numbers are one document. "
            "octet-stream: the header Operator-Descriptor has the operator, and the body is the "
            "tensor's bytes, little-endian. x-npy: the body is a .npy file. Content-Encoding may "
            "be identity, gzip or deflate.\n\n-0.3 rounds to -0.0, as IEEE 754 defines; browsers, "
            "this page too, show it as 0."
        ),
        "parameters": PARAMETERS,
        "requestBody": {
            "required": True,
            "content": {
                native.JSON: {
                    "schema": {
                        "anyOf": [
                            {"$ref": SCHEMAS_PATH + "RoundRequest"},
                            {"$ref": SCHEMAS_PATH + "ShortRoundRequest"},
                        ]
                    },
                    "example": REQUEST,
                },
                native.OCTET_STREAM: BINARY,
                native.NPY: BINARY,
            },
        },
        "responses": {"200": _ROUNDED, **problem_responses(CODES)},
    }


#: All codes except those of unknown paths, wrong methods and internal errors.
CODES = [code for code, kind in REFUSALS.items() if kind.status not in (404, 405, 500)]

PARAMETERS: list[dict[str, Any]] = [
    {
        "name": native.OPERATOR_DESCRIPTOR,
        "in": "header",
        "description": (
            "With application/octet-stream only: the JSON of a `Descriptor` (see Schemas), such as "
            f"`{json.dumps(_DESCRIPTOR)}`."
        ),
        # With `content` or `contentMediaType`, client generators omit the parameter, and Swagger
        # UI asks for a file.
        "schema": {"type": "string", "examples": [json.dumps(_DESCRIPTOR)]},
    },
    {
        "name": "operator",
        "in": "query",
        "description": f"With application/x-npy and JSON: the operator as one word, {SPELLINGS}; "
        "of .npy files ties_to_even by default.",
        "schema": {"type": "string"},
    },
    {
        "name": "rounding",
        "in": "query",
        "description": "With application/x-npy: the rounding, in place of `operator`.",
        "schema": {"type": "string", "enum": [r.value for r in Rounding]},
    },
    {
        "name": "dtype",
        "in": "query",
        "description": "With application/x-npy: the dtype of a file that says V1 or V2.",
        "schema": {"type": "string", "enum": [d.name for d in DTYPES if not d.is_named_by_npy]},
    },
    {
        "name": native.CONTENT_DIGEST,
        "in": "header",
        "description": "RFC 9530: `sha-256=:...:` of the body; the service verifies it.",
        "schema": {"type": "string"},
    },
    {
        "name": native.WANT_CONTENT_DIGEST,
        "in": "header",
        "description": "RFC 9530: `sha-256=1` requests the digest of the response.",
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
    "description": "The rounded tensor, in the representation of the request.",
    "headers": HEADERS,
    # Some generators use the first representation for all responses: bytes suit all three.
    "content": {
        native.OCTET_STREAM: BINARY,
        native.JSON: {
            "schema": {"$ref": SCHEMAS_PATH + "RoundResponse"},
            "example": _RESPONSE,
        },
        native.NPY: BINARY,
    },
}
