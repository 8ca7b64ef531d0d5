"""The OpenAPI document: FastAPI's own, with what it cannot see written in."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from tensor_round import operators
from tensor_round.errors import REFUSALS, RequestRefused
from tensor_round.operator_text import SPELLINGS
from tensor_round.rounding import Rounding

from . import openapi_inference
from .openapi_security import add_keys

_SCHEMAS = "#/components/schemas/"
_BINARY = {"type": "string", "format": "binary"}
#: What any request may be refused with, wherever it goes.
_ANYWHERE = ("401", "421", "431", "503")

PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "What went wrong (RFC 9457), and where.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "enum": sorted(REFUSALS)},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["loc", "msg"],
                "properties": {
                    "loc": {
                        "type": "array",
                        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    },
                    "msg": {"type": "string"},
                },
            },
        },
        "limit_bytes": {"type": "integer"},
        "got_bytes": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
}


def describe(app: FastAPI, open_paths: Set[str] | None = None) -> None:
    """Make ``app.openapi()`` tell of the plain ASGI routes and of every refusal.

    ``open_paths`` are those that need no key, where others do.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            # What FastAPI assumes of validation errors is not what this service answers.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            descriptor = TypeAdapter(operators.Descriptor).json_schema(
                ref_template=_SCHEMAS + "{model}"
            )
            schemas.update(descriptor.pop("$defs"))
            schemas["Descriptor"] = descriptor
            schemas["Problem"] = PROBLEM
            schemas.update(openapi_inference.SCHEMAS)
            paths = document["paths"]
            refusals = refusal_responses()
            for operations in paths.values():
                for operation in operations.values():
                    operation["responses"].update({s: refusals[s] for s in _ANYWHERE})
            paths["/round"] = {"post": _round_operation()}
            openapi_inference.add_inference(paths)
            if open_paths is not None:
                add_keys(document, open_paths)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _round_operation() -> dict[str, Any]:
    return {
        "tags": ["round"],
        "operationId": "round",
        "summary": "Round every element of a tensor",
        "description": (
            "Three forms of one operation, told apart by Content-Type. The answer has the form "
            "of the request. Content-Encoding may be identity, gzip or deflate."
        ),
        "parameters": _PARAMETERS,
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": _BINARY},
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["descriptor", "data"],
                        "additionalProperties": False,
                        "properties": {
                            "descriptor": {"$ref": _SCHEMAS + "Descriptor"},
                            "data": _NUMBERS,
                        },
                    },
                    "example": _EXAMPLE,
                },
                "application/x-npy": {"schema": _BINARY},
            },
        },
        "responses": {"200": _ROUNDED, **refusal_responses()},
    }


def refusal_responses() -> dict[str, Any]:
    """One entry a status, naming the codes it may carry."""
    codes: dict[int, list[type[RequestRefused]]] = {}
    for kind in REFUSALS.values():
        codes.setdefault(kind.status, []).append(kind)
    content = {"application/problem+json": {"schema": {"$ref": _SCHEMAS + "Problem"}}}
    return {
        str(status): {
            "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds),
            "content": content,
        }
        for status, kinds in sorted(codes.items())
        if status not in (404, 405, 500)
    }


_EXAMPLE = {
    "descriptor": {
        "dialect": "ieee754",
        "rounding": "ties_to_even",
        "input": {"dtype": "float32", "shape": [4]},
    },
    "data": [0.5, 1.5, -0.3, 2.5],
}

_NUMBERS = {
    "description": 'Numbers, nested as the shape or flat; "NaN", "Infinity", "-Infinity" too.',
    "anyOf": [{"type": "number"}, {"type": "string"}, {"type": "array"}],
}

_PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "Operator-Descriptor",
        "in": "header",
        "description": "With application/octet-stream: the operator and the tensor's layout.",
        "content": {"application/json": {"schema": {"$ref": _SCHEMAS + "Descriptor"}}},
    },
    {
        "name": "operator",
        "in": "query",
        "description": f"With application/x-npy: the operator as one word, {SPELLINGS}.",
        "schema": {"type": "string", "default": "ties_to_even"},
        "example": "directml:TOWARD_INFINITY",
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
        "name": "Content-Digest",
        "in": "header",
        "description": "RFC 9530: `sha-256=:...:` of the body, which is then verified.",
        "schema": {"type": "string"},
    },
    {
        "name": "Want-Content-Digest",
        "in": "header",
        "description": "RFC 9530: `sha-256=1` asks for the answer's digest.",
        "schema": {"type": "string"},
    },
]

_ROUNDED: dict[str, Any] = {
    "description": "The rounded tensor, in the form of the request.",
    "headers": {
        "Output-Descriptor": {
            "description": "octet-stream only: dtype, shape, strides and byte_length, as JSON.",
            "schema": {"type": "string"},
        },
        "Execution-Backend": {"schema": {"type": "string", "enum": ["numpy", "cupy"]}},
        "Server-Timing": {
            "description": "Milliseconds to receive, queue and execute.",
            "schema": {"type": "string"},
        },
        "X-Request-ID": {"schema": {"type": "string"}},
        "Content-Digest": {"schema": {"type": "string"}},
    },
    "content": {
        "application/octet-stream": {"schema": _BINARY},
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["output", "data"],
                "properties": {
                    "output": {
                        "type": "object",
                        "required": ["dtype", "shape"],
                        "properties": {
                            "dtype": {"type": "string"},
                            "shape": {"type": "array", "items": {"type": "integer"}},
                        },
                    },
                    "data": _NUMBERS,
                },
            }
        },
        "application/x-npy": {"schema": _BINARY},
    },
}
