"""The ``/v2`` part of the OpenAPI document: inference, request bodies and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tensor_round.contract.wire import http_fields

from ..openapi.errors import EXAMPLES, HEADERS
from ..openapi.schemas import BINARY, INTEGER, STRING, Schema, components, parameter, ref
from . import infer_json
from .models import MODELS
from .plan import NO_SHARED_MEMORY

#: The tag of the operations under ``/v2``.
TAG = "open inference protocol"

_Size = Annotated[int, Field(ge=0)]
_Bytes = Annotated[int, Field(ge=1)]
_Numbers = Annotated[list[float | list[Any]], Field(description="Numbers, nested in any way.")]
_Parameters = dict[str, str | float | bool]
_MOST_INPUTS = max(len(model.inputs) for model in MODELS)


class InferenceError(TypedDict):
    """The error, in one line."""

    error: str


class _Tensor(TypedDict):
    name: str
    datatype: str
    shape: list[_Size]
    parameters: NotRequired[_Parameters]
    data: NotRequired[_Numbers]


class InferenceInput(_Tensor):
    """A tensor by its name; a model's only one may have any."""


class InferenceOutput(_Tensor):
    """The rounded tensor; without data if its bytes follow the JSON or are in shared memory."""


class InferenceRequestedOutput(TypedDict):
    """The requested form of the output."""

    name: str
    parameters: NotRequired[_Parameters]


class InferenceRequest(TypedDict):
    """The Open Inference Protocol's request.

    The numbers are in `data`, in `binary_data_size` bytes after the JSON, or in a
    `shared_memory_region`. With the parameter `strict_json`, or the member `model_name` as KServe's
    client writes it, the response has NaN and infinities as strings.
    """

    id: NotRequired[str]
    parameters: NotRequired[_Parameters]
    inputs: Annotated[list[InferenceInput], Field(min_length=1, max_length=_MOST_INPUTS)]
    outputs: NotRequired[Annotated[list[InferenceRequestedOutput], Field(max_length=1)]]


class InferenceResponse(TypedDict):
    """The Open Inference Protocol's response."""

    id: NotRequired[str]
    model_name: str
    model_version: str
    outputs: list[InferenceOutput]


class RepositoryIndexRequest(TypedDict):
    """Which models to list."""

    ready: NotRequired[bool]


class RepositoryModelLoadRequest(TypedDict):
    """How to load a model; ignored."""

    parameters: NotRequired[dict[str, Any]]


class SystemSharedMemoryRegisterRequest(TypedDict):
    """A part of a POSIX shared memory object."""

    key: Annotated[str, Field(description="The name of a POSIX shared memory object.")]
    offset: NotRequired[_Size]
    byte_size: _Bytes


class CudaHandle(TypedDict):
    """A cudaIpcMemHandle_t in Base64."""

    b64: Annotated[str, Field(json_schema_extra={"format": "byte"})]


class CudaSharedMemoryRegisterRequest(TypedDict):
    """The first bytes of a CUDA allocation."""

    raw_handle: CudaHandle
    device_id: NotRequired[_Size]
    byte_size: _Bytes


#: What the calls that have a body read from it, by name.
BODIES = {
    document.__name__.removesuffix("Request"): document
    for document in (
        RepositoryIndexRequest,
        RepositoryModelLoadRequest,
        SystemSharedMemoryRegisterRequest,
        CudaSharedMemoryRegisterRequest,
    )
}
_DOCUMENTS = (InferenceError, InferenceRequest, InferenceResponse, *BODIES.values())


def schemas() -> Schema:
    """Components of the OpenAPI document for the paths under ``/v2``."""
    names = list(dict.fromkeys(model.name for model in MODELS))
    name = {"title": "ModelName", "description": "A model.", **STRING, "enum": names}
    return {"ModelName": name, **components(*_DOCUMENTS, mode="serialization")}


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
    "403": (
        "A page of another origin requested a change",
        "a page of another origin may not change anything here",
    ),
    "404": (
        "There is no such model, version or region",
        'model round has no version "2"; it has 1',
    ),
    "501": ("The service does not offer this extension", NO_SHARED_MEMORY),
    **{
        str(EXAMPLES[code].status): (EXAMPLES[code].title, EXAMPLES[code].detail)
        for code in (
            "unauthorized",
            "receive_timeout",
            "tensor_too_large",
            "unsupported_encoding",
            "misdirected_host",
            "headers_too_large",
        )
    },
    "503": (
        "Overloaded, not ready, or shutting down; with Retry-After",
        EXAMPLES["overloaded"].detail,
    ),
}
_IN_PATH = re.compile(r"{(\w+)}")
_ANYWHERE = ("400", "421", "431", "503")
_WITH_A_BODY = ("403", "408", "413", "415")


def infer_operation(name: str, summary: str) -> Schema:
    """The OpenAPI operation of an inference path."""
    length = parameter(
        infer_json.HEADER_LENGTH,
        "header",
        {**INTEGER, "minimum": 0},
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
            "content": {http_fields.JSON: request, http_fields.OCTET_STREAM: BINARY},
        },
        "responses": {
            "200": {
                "description": "The output, in the JSON or as bytes after it.",
                "content": {http_fields.JSON: response, http_fields.OCTET_STREAM: BINARY},
            }
        },
    }


def control_body(call: str) -> Schema:
    """The part of an operation that describes the body of this call."""
    content = {http_fields.JSON: {"schema": ref(BODIES[call].__name__)}}
    return {"requestBody": {"content": content, "required": call.endswith("Register")}}


def refused_operation() -> Schema:
    """The part of an operation that no request performs: it has no response but refusals."""
    return {"responses": {}}


def complete(operation: Schema, path: str, method: str, *, is_open: bool) -> None:
    """Add the refusals of an operation under ``/v2``, and the parameters in its path."""
    model = ref("ModelName") if "/models/" in path else STRING
    named = [
        parameter(name, "path", model if name == "name" else STRING, required=True)
        for name in _IN_PATH.findall(path)
    ]
    if named:
        operation["parameters"] = [*named, *operation.get("parameters", ())]
    statuses = [
        *(() if is_open else ("401",)),
        *(("404",) if "{" in path else ()),
        *(_WITH_A_BODY if method == "post" else ()),
        *(("501",) if path.endswith("/infer") else ()),
        *_ANYWHERE,
    ]
    success = {"200": found} if (found := operation["responses"].get("200")) else {}
    operation["responses"] = success | _refusals(sorted(statuses))


def _refusals(statuses: Iterable[str]) -> Schema:
    responses: Schema = {}
    for status in statuses:
        description, error = REFUSALS[status]
        content = {"schema": ref("InferenceError"), "example": {"error": error}}
        responses[status] = {"description": description, "content": {http_fields.JSON: content}}
        if headers := HEADERS.get(int(status)):
            responses[status]["headers"] = headers
    return responses
