"""The ``/v2`` part of the OpenAPI document: inference, request bodies and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from tensor_round.contract.wire import native

from ..codec import oip
from ..inference.models import MODELS
from ..inference.plan import NO_SHARED_MEMORY
from .errors import EXAMPLES, RETRY_AFTER, SCHEMAS_PATH

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
    },
}
_SHAPE: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_DATA: dict[str, Any] = {
    "description": "Numbers, nested in any way.",
    "type": "array",
    "items": {"anyOf": [{"type": "number"}, {"type": "array", "items": {}}]},
}


def _object(title: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "title": title,
        "description": description,
        "type": "object",
        "required": required,
        "properties": properties,
    }


def _array_of(name: str, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": SCHEMAS_PATH + name}, **bounds}


#: Components of the document for the inference paths.
SCHEMAS: dict[str, Any] = {
    "ModelName": {
        "title": "ModelName",
        "description": "A model.",
        "type": "string",
        "enum": list(dict.fromkeys(model.name for model in MODELS)),
    },
    "InferenceError": _object(
        "InferenceError", "The error, in one line.", ["error"], error={"type": "string"}
    ),
    "InferenceRequest": _object(
        "InferenceRequest",
        "The Open Inference Protocol's request. The numbers are in `data`, in `binary_data_size` "
        "bytes after the JSON, or in a `shared_memory_region`. With the parameter `strict_json`, "
        "the response has NaN and infinities as strings.",
        ["inputs"],
        id={"type": "string"},
        parameters=_PARAMETERS,
        inputs=_array_of("InferenceInput", minItems=1, maxItems=1),
        outputs=_array_of("InferenceRequestedOutput", maxItems=1),
    ),
    "InferenceInput": _object(
        "InferenceInput",
        "The tensor to round.",
        ["name", "datatype", "shape"],
        name={"type": "string"},
        datatype={"type": "string"},
        shape=_SHAPE,
        parameters=_PARAMETERS,
        data=_DATA,
    ),
    "InferenceRequestedOutput": _object(
        "InferenceRequestedOutput",
        "The requested form of the output.",
        ["name"],
        name={"type": "string"},
        parameters=_PARAMETERS,
    ),
    "InferenceResponse": _object(
        "InferenceResponse",
        "The Open Inference Protocol's response.",
        ["model_name", "model_version", "outputs"],
        id={"type": "string"},
        model_name={"type": "string"},
        model_version={"type": "string"},
        outputs=_array_of("InferenceOutput"),
    ),
    "InferenceOutput": _object(
        "InferenceOutput",
        "The rounded tensor; without data if its bytes follow the JSON or are in shared memory.",
        ["name", "datatype", "shape"],
        name={"type": "string"},
        datatype={"type": "string"},
        shape=_SHAPE,
        parameters=_PARAMETERS,
        data=_DATA,
    ),
}

_REQUEST = {
    "inputs": [{"name": "X", "datatype": "FP32", "shape": [4], "data": [0.5, 1.5, -0.3, 2.5]}]
}
_RESPONSE = {
    "model_name": "round",
    "model_version": "1",
    "outputs": [{"name": "Y", "datatype": "FP32", "shape": [4], "data": [0.0, 2.0, -0.0, 2.0]}],
}

#: By status: its meaning, and an example with the exact text of the service.
REFUSALS: dict[str, tuple[str, str]] = {
    "400": (
        "The request violates a rule of the protocol or of the model",
        "the data has 3 elements, the shape [4] has 4",
    ),
    "401": ("An API key is needed", EXAMPLES["unauthorized"].detail),
    "403": (
        "A page of another origin requested a change",
        "a page of another origin may not change anything here",
    ),
    "404": (
        "There is no such model, version or region",
        'model round has no version "2"; it has 1',
    ),
    "408": ("The request was received too slowly", EXAMPLES["receive_timeout"].detail),
    "413": ("The tensor, or the JSON, is too large", EXAMPLES["tensor_too_large"].detail),
    "415": (
        "The Content-Encoding is not identity, gzip or deflate",
        EXAMPLES["unsupported_encoding"].detail,
    ),
    "421": ("The request is for another host", EXAMPLES["misdirected_host"].detail),
    "431": ("The headers are too large", EXAMPLES["headers_too_large"].detail),
    "501": ("The service does not offer this extension", NO_SHARED_MEMORY),
    "503": (
        "Overloaded, not ready, or shutting down; with Retry-After",
        EXAMPLES["overloaded"].detail,
    ),
}
_ANYWHERE = ("421", "431", "503")
_WITH_A_BODY = ("400", "403", "408", "413", "415")

#: Required members and schemas of the bodies of control requests.
_CONTROLS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "/v2/repository/index": ([], {"ready": {"type": "boolean"}}),
    "/v2/repository/models/{name}/load": ([], {"parameters": {"type": "object"}}),
    "/v2/systemsharedmemory/region/{name}/register": (
        ["key", "byte_size"],
        {
            "key": {"type": "string", "description": "The name of a POSIX shared memory object."},
            "offset": {"type": "integer", "minimum": 0},
            "byte_size": {"type": "integer", "minimum": 1},
        },
    ),
    "/v2/cudasharedmemory/region/{name}/register": (
        ["raw_handle", "byte_size"],
        {
            "raw_handle": {
                "type": "object",
                "required": ["b64"],
                "properties": {"b64": {"type": "string", "format": "byte"}},
            },
            "device_id": {"type": "integer", "minimum": 0},
            "byte_size": {"type": "integer", "minimum": 1},
        },
    ),
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


def add_inference(paths: dict[str, Any], open_paths: Set[str]) -> None:
    """Add the inference paths, and the bodies and refusals of the other paths under ``/v2``."""
    name, version = _in_path("name"), _in_path("model_version")
    paths["/v2/models/{name}/infer"] = {"post": _infer("infer", "Round a tensor", [name])}
    paths["/v2/models/{name}/versions/{model_version}/infer"] = {
        "post": _infer("infer_version", "Round a tensor by a version", [name, version])
    }
    for path, (required, members) in _CONTROLS.items():
        if path in paths:
            schema: dict[str, Any] = {"type": "object", "properties": members}
            if required:
                schema["required"] = required
            body = {"content": {native.JSON: {"schema": schema}}, "required": bool(required)}
            paths[path]["post"]["requestBody"] = body
    for path, operations in paths.items():
        if path.startswith("/v2"):
            for method, operation in operations.items():
                _describe(operation, path, method == "post", path in open_paths)


def _describe(operation: dict[str, Any], path: str, has_body: bool, is_open: bool) -> None:
    """Add the refusals of an operation, and the names of the models."""
    if "/models/{name}" in path:
        for parameter in operation["parameters"]:
            if parameter["name"] == "name":
                parameter["schema"] = {"$ref": SCHEMAS_PATH + "ModelName"}
    statuses = [
        *(() if is_open else ("401",)),
        *(("404",) if "{" in path else ()),
        *(_WITH_A_BODY if has_body else ()),
        *(("501",) if path.endswith("/infer") else ()),
        *_ANYWHERE,
    ]
    success = operation["responses"]["200"]
    operation["responses"] = {"200": success, **_refusals(sorted(statuses))}


def _infer(operation: str, summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    length = {
        "name": oip.HEADER_LENGTH,
        "in": "header",
        "description": "Length of the JSON in bytes; 0 if the whole body is one FP32 tensor.",
        "schema": {"type": "integer", "minimum": 0},
    }
    request = {"schema": {"$ref": SCHEMAS_PATH + "InferenceRequest"}, "example": _REQUEST}
    response = {"schema": {"$ref": SCHEMAS_PATH + "InferenceResponse"}, "example": _RESPONSE}
    return {
        "tags": ["open inference protocol"],
        "operationId": operation,
        "summary": summary,
        "parameters": [*parameters, length],
        "requestBody": {
            "required": True,
            "content": {native.JSON: request, native.OCTET_STREAM: _BINARY},
        },
        "responses": {
            "200": {
                "description": "The output, in the JSON or as bytes after it.",
                "content": {native.JSON: response, native.OCTET_STREAM: _BINARY},
            }
        },
    }


def _refusals(statuses: Iterable[str]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in statuses:
        description, error = REFUSALS[status]
        content = {
            "schema": {"$ref": SCHEMAS_PATH + "InferenceError"},
            "example": {"error": error},
        }
        responses[status] = {"description": description, "content": {native.JSON: content}}
    responses["503"]["headers"] = RETRY_AFTER
    return responses


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
