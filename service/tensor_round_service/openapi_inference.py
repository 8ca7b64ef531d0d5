"""The ``/v2`` part of the OpenAPI document: inference itself, and what each route may refuse."""

from __future__ import annotations

from typing import Any

from tensor_round.wire import oip

from .models import MODELS

_SCHEMAS = "#/components/schemas/"

#: Components of the document that this part refers to.
SCHEMAS: dict[str, Any] = {
    "InferenceError": {
        "title": "InferenceError",
        "description": "What went wrong, in one line.",
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}},
    },
    "InferenceRequest": {
        "title": "InferenceRequest",
        "description": "The Open Inference Protocol's request. The numbers are `data`, or "
        "`binary_data_size` bytes behind the JSON, or in a `shared_memory_region`.",
        "example": {
            "inputs": [
                {"name": "X", "datatype": "FP32", "shape": [4], "data": [0.5, 1.5, -0.3, 2.5]}
            ]
        },
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "parameters": {"type": "object"},
            "inputs": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": {
                    "type": "object",
                    "required": ["name", "datatype", "shape"],
                    "properties": {
                        "name": {"type": "string"},
                        "datatype": {"type": "string"},
                        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                        "parameters": {"type": "object"},
                        "data": {"type": "array"},
                    },
                },
            },
            "outputs": {"type": "array", "maxItems": 1, "items": {"type": "object"}},
        },
    },
    "InferenceAnswer": {
        "title": "InferenceAnswer",
        "type": "object",
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "id": {"type": "string"},
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "outputs": {"type": "array", "items": {"type": "object"}},
        },
    },
}

_REFUSALS = {
    "400": "The request breaks a rule of the protocol or of the model",
    "401": "An API key is needed",
    "403": "A page of another origin asked for a change",
    "404": "There is no such model, version or region",
    "408": "The request came too slowly",
    "413": "The tensor, or the JSON, is too large",
    "415": "The Content-Encoding is none of identity, gzip and deflate",
    "421": "The request is for another host",
    "431": "The headers are too large",
    "501": "The service is not set up to do this",
    "503": "No room, not ready, or shutting down; with Retry-After",
}
#: What the bodies of control requests may say; an empty one says nothing.
_CONTROLS: dict[str, dict[str, Any]] = {
    "/v2/repository/index": {"ready": {"type": "boolean"}},
    "/v2/repository/models/{name}/load": {"parameters": {"type": "object"}},
    "/v2/systemsharedmemory/region/{name}/register": {
        "key": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "byte_size": {"type": "integer", "minimum": 1},
    },
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_NAMES = sorted({model.name for model in MODELS})
_VERSIONS = sorted({model.version for model in MODELS})


def add_inference(paths: dict[str, Any]) -> None:
    """Write into the paths what the routes of ``/v2`` take and answer, as their author knows it."""
    name = _in_path("name", _NAMES)
    version = _in_path("model_version", _VERSIONS)
    paths["/v2/models/{name}/infer"] = {"post": _infer("infer", [name])}
    paths["/v2/models/{name}/versions/{model_version}/infer"] = {
        "post": _infer("infer_version", [name, version])
    }
    for path, members in _CONTROLS.items():
        schema = {"schema": {"type": "object", "properties": members}}
        paths[path]["post"]["requestBody"] = {"content": {"application/json": schema}}
    for path, operations in paths.items():
        if path.startswith("/v2"):
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["responses"].update(_refusals())


def _infer(operation: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    json = {"application/json": {"schema": {"$ref": _SCHEMAS + "InferenceRequest"}}}
    answer = {"application/json": {"schema": {"$ref": _SCHEMAS + "InferenceAnswer"}}}
    length = {
        "name": oip.HEADER_LENGTH,
        "in": "header",
        "description": "Bytes of the body that are its JSON; 0 where all of it is one FP32 tensor.",
        "schema": {"type": "integer", "minimum": 0},
    }
    return {
        "tags": ["open inference protocol"],
        "operationId": operation,
        "summary": "Round a tensor",
        "parameters": [*parameters, length],
        "requestBody": {
            "required": True,
            "content": {**json, "application/octet-stream": _BINARY},
        },
        "responses": {
            "200": {
                "description": "The output, in JSON or as bytes behind it.",
                "content": {**answer, "application/octet-stream": _BINARY},
            }
        },
    }


def _refusals() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _SCHEMAS + "InferenceError"}}}
    return {
        status: {"description": description, "content": content}
        for status, description in _REFUSALS.items()
    }


def _in_path(name: str, values: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": values},
    }
