"""The ``/v2`` part of the OpenAPI document: inference, request bodies and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tensor_round.contract.wire import native

from ..openapi.errors import EXAMPLES, RETRY_AFTER
from ..openapi.schemas import (
    BINARY,
    INTEGER,
    STRING,
    Schema,
    any_of,
    array_of,
    component,
    parameter,
    ref,
)
from . import codec
from .models import MODELS
from .plan import NO_SHARED_MEMORY

#: The tag of the operations under ``/v2``.
TAG = "open inference protocol"

_NUMBER = {"type": "number"}
_SIZE = {**INTEGER, "minimum": 0}
_PARAMETERS: Schema = {
    "type": "object",
    "additionalProperties": any_of(STRING, _NUMBER, {"type": "boolean"}),
}
#: Members of every tensor, and of one whose numbers may be in the JSON.
_TENSOR = {"name": STRING, "datatype": STRING, "shape": array_of(_SIZE)}
_WITH_DATA = {
    **_TENSOR,
    "parameters": _PARAMETERS,
    "data": {
        "description": "Numbers, nested in any way.",
        **array_of(any_of(_NUMBER, array_of({}))),
    },
}

#: Components of the document for the inference paths.
SCHEMAS: Schema = {
    "ModelName": {
        "title": "ModelName",
        "description": "A model.",
        "type": "string",
        "enum": list(dict.fromkeys(model.name for model in MODELS)),
    },
    **component("InferenceError", "The error, in one line.", ["error"], {"error": STRING}),
    **component(
        "InferenceRequest",
        "The Open Inference Protocol's request. The numbers are in `data`, in `binary_data_size` "
        "bytes after the JSON, or in a `shared_memory_region`. With the parameter `strict_json`, "
        "the response has NaN and infinities as strings.",
        ["inputs"],
        {
            "id": STRING,
            "parameters": _PARAMETERS,
            "inputs": array_of(ref("InferenceInput"), minItems=1, maxItems=1),
            "outputs": array_of(ref("InferenceRequestedOutput"), maxItems=1),
        },
    ),
    **component("InferenceInput", "The tensor to round.", _TENSOR, _WITH_DATA),
    **component(
        "InferenceRequestedOutput",
        "The requested form of the output.",
        ["name"],
        {"name": STRING, "parameters": _PARAMETERS},
    ),
    **component(
        "InferenceResponse",
        "The Open Inference Protocol's response.",
        ["model_name", "model_version", "outputs"],
        {
            "id": STRING,
            "model_name": STRING,
            "model_version": STRING,
            "outputs": array_of(ref("InferenceOutput")),
        },
    ),
    **component(
        "InferenceOutput",
        "The rounded tensor; without data if its bytes follow the JSON or are in shared memory.",
        _TENSOR,
        _WITH_DATA,
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
_IN_PATH = re.compile(r"{(\w+)}")
_ANYWHERE = ("421", "431", "503")
_WITH_A_BODY = ("400", "403", "408", "413", "415")


def infer_operation(name: str, summary: str) -> Schema:
    """The OpenAPI operation of an inference path."""
    length = parameter(
        codec.HEADER_LENGTH,
        "header",
        _SIZE,
        "Length of the JSON in bytes; 0 if the whole body is one FP32 tensor.",
    )
    request = {"schema": ref("InferenceRequest"), "example": _REQUEST}
    response = {"schema": ref("InferenceResponse"), "example": _RESPONSE}
    return {
        "tags": [TAG],
        "operationId": name,
        "summary": summary,
        "parameters": [length],
        "requestBody": {
            "required": True,
            "content": {native.JSON: request, native.OCTET_STREAM: BINARY},
        },
        "responses": {
            "200": {
                "description": "The output, in the JSON or as bytes after it.",
                "content": {native.JSON: response, native.OCTET_STREAM: BINARY},
            }
        },
    }


def control_body(required: Sequence[str], members: Schema) -> Schema:
    """The part of an operation that describes its body, a JSON object with these members."""
    schema = {
        "type": "object",
        "properties": members,
        **({"required": [*required]} if required else {}),
    }
    return {
        "requestBody": {"content": {native.JSON: {"schema": schema}}, "required": bool(required)}
    }


def complete(operation: Schema, path: str, method: str, *, is_open: bool) -> None:
    """Add the refusals of an operation under ``/v2``, and the parameters in its path."""
    named = _IN_PATH.findall(path)
    if named:
        is_model = "/models/" in path
        operation["parameters"] = [
            *(
                parameter(
                    *(name, "path", ref("ModelName") if is_model and name == "name" else STRING),
                    required=True,
                )
                for name in named
            ),
            *operation.get("parameters", ()),
        ]
    statuses = [
        *(() if is_open else ("401",)),
        *(("404",) if "{" in path else ()),
        *(_WITH_A_BODY if method == "post" else ()),
        *(("501",) if path.endswith("/infer") else ()),
        *_ANYWHERE,
    ]
    success = operation["responses"]["200"]
    operation["responses"] = {"200": success, **_refusals(sorted(statuses))}


def _refusals(statuses: Iterable[str]) -> Schema:
    responses: Schema = {}
    for status in statuses:
        description, error = REFUSALS[status]
        content = {"schema": ref("InferenceError"), "example": {"error": error}}
        responses[status] = {"description": description, "content": {native.JSON: content}}
    responses["503"]["headers"] = RETRY_AFTER
    return responses
