"""The ``/v2`` routes besides inference: health, metadata, statistics, settings, shared memory.

Models and settings are fixed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import GenericAlias
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    MalformedJSON,
    NotFound,
    NotOffered,
    RequestRefused,
)
from tensor_round.contract.quoting import shown
from tensor_round.contract.wire import strictjson

from .. import documents
from ..content.sources import read_all
from ..engine.job import Job
from ..http1.asgi import CONTROL_PIECE_BYTES, AsgiRequest
from ..routes.table import Row
from ..routes.tensor_route import content_of
from . import server
from .cuda_memory import HANDLE_BYTES, CudaSharedMemory
from .inference import OpenInference
from .models import MODELS, Model, config_of, find, metadata_of, versions_of
from .operations import TAG, control_body
from .plan import NO_SHARED_MEMORY
from .posix_memory import PosixSharedMemory
from .regions import RegisteredMemory, Registration

#: Maximum length of a control request's body in bytes.
MAX_LENGTH = 64 << 10
_MAX_DEPTH = 16

_NO_MODELS = "there is nothing at this path; POST /v2/repository/index lists the models"

#: A route under ``/v2``; without a summary it is not in the OpenAPI document.
_Row = partial(Row, tag=TAG, is_counted=False)
_Post = partial(_Row, method="POST")
_Probe = partial(_Row, is_open=True, is_counted=True)
_MODEL, _VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{model_version}"


def control_rows(offered: OpenInference, check_ready: Callable[[], Awaitable[None]]) -> list[Row]:
    """The routes. ``check_ready`` raises a refusal if the service is not ready.

    Those of a missing kind of shared memory respond 501 with the reason.
    """
    counts = offered.inference.counts
    shared_memory, cuda_memory = offered.shared_memory, offered.cuda_memory
    if shared_memory is None:
        system = _refused("system", NO_SHARED_MEMORY)
    else:
        system = _system(shared_memory)
    cuda = _refused("cuda", cuda_memory) if isinstance(cuda_memory, str) else _cuda(cuda_memory)
    metadata = server.server_metadata(
        has_system_memory=shared_memory is not None,
        has_cuda_memory=not isinstance(cuda_memory, str),
    )

    async def server_metadata() -> documents.ServerMetadata:
        """Name, version and the protocol extensions that are enabled."""
        return metadata

    async def server_live() -> documents.ServerLive:
        """Responds 200 as long as the event loop runs."""
        return {"live": True}

    async def server_ready() -> documents.ServerReady:
        """Responds 200 if requests can be served, else 503."""
        await check_ready()
        return {"ready": True}

    async def all_statistics() -> documents.StatisticsReport:
        """Counts and durations of the inferences of every version of every model."""
        return {"model_stats": [counts.describe(model) for model in MODELS]}

    async def model_metadata(name: str) -> documents.ModelMetadata:
        """Versions, and the names of input and output."""
        return metadata_of(find(name))

    async def model_version_metadata(name: str, model_version: str) -> documents.ModelMetadata:
        """Versions, and the names of input and output."""
        return metadata_of(find(name, model_version))

    async def _readiness(model: Model) -> documents.ModelReady:
        await check_ready()
        return {"name": model.name, "ready": True}

    async def model_ready(name: str) -> documents.ModelReady:
        """A model is ready when the server is."""
        return await _readiness(find(name))

    async def model_version_ready(name: str, model_version: str) -> documents.ModelReady:
        """A version is ready when the server is."""
        return await _readiness(find(name, model_version))

    async def model_config(name: str) -> documents.ModelConfig:
        """Triton's configuration; `parameters` list all datatypes that the model accepts."""
        return config_of(find(name))

    async def model_version_config(name: str, model_version: str) -> documents.ModelConfig:
        """Triton's configuration; `parameters` list all datatypes that the version accepts."""
        return config_of(find(name, model_version))

    async def model_statistics(name: str) -> documents.StatisticsReport:
        """Counts and durations of the inferences of every version of the model."""
        return {"model_stats": [counts.describe(model) for model in versions_of(name)]}

    async def model_version_statistics(name: str, model_version: str) -> documents.StatisticsReport:
        """Counts and durations of the inferences of the version."""
        return {"model_stats": [counts.describe(find(name, model_version))]}

    return [
        _Row("/v2", server_metadata, "Server metadata", link="v2"),
        _Probe("/v2/health/live", server_live, "Is the server alive?"),
        _Probe("/v2/health/ready", server_ready, "Can the server infer?"),
        _Row("/v2/models", _refusing(NotFound, _NO_MODELS)),
        # Before the routes of a model, so that "stats" is not taken for a model's name.
        _Row("/v2/models/stats", all_statistics, "Statistics of all models"),
        _Row(_MODEL, model_metadata, "Model metadata"),
        _Row(_VERSION, model_version_metadata, "Metadata of a version"),
        _Row(f"{_MODEL}/ready", model_ready, "Can the model infer?"),
        _Row(f"{_VERSION}/ready", model_version_ready, "Can the version infer?"),
        _Row(f"{_MODEL}/config", model_config, "Model configuration"),
        _Row(f"{_VERSION}/config", model_version_config, "Version's configuration"),
        _Row(f"{_MODEL}/stats", model_statistics, "Model statistics"),
        _Row(f"{_VERSION}/stats", model_version_statistics, "Version's statistics"),
        *_repository_rows(),
        *system,
        *cuda,
    ]


def _repository_rows() -> list[Row]:
    async def repository_index(request: Request) -> list[documents.IndexEntry]:
        """Every version of every model; `ready` makes no difference, because all are ready."""
        ready = (await _members(request)).get("ready", True)
        if not isinstance(ready, bool):
            rule = f"must be true or false, got {shown(ready)}"
            raise InvalidDescriptor.of([Fault(("ready",), rule)])
        return server.repository_index()

    async def load_model(name: str, request: Request) -> documents.Nothing:
        """Does nothing: every model is loaded."""
        find(name)
        await _members(request)
        return {}

    async def log_settings() -> documents.LogSettings:
        """The log settings, in Triton's form."""
        return server.LOGGING

    async def trace_settings() -> documents.TraceSettings:
        """Nothing is traced."""
        return server.TRACE

    async def model_trace_settings(name: str) -> documents.TraceSettings:
        """Nothing is traced."""
        find(name)
        return server.TRACE

    index = partial(control_body, ready={"type": "boolean"})
    load = partial(control_body, parameters={"type": "object"})
    repository, trace = "/v2/repository/models/{name}", "/trace/setting"
    return [
        _Post("/v2/repository/index", repository_index, "List the models", operation=index),
        _Post(f"{repository}/load", load_model, "Load a model", operation=load),
        _Post(f"{repository}/unload", _refusing(InvalidDescriptor, server.FIXED_MODEL)),
        _Row("/v2/logging", log_settings, "Log settings"),
        _Post("/v2/logging", _refusing(InvalidDescriptor, server.FIXED_LOGGING)),
        _Row(f"/v2{trace}", trace_settings, "Trace settings"),
        _Row(f"{_MODEL}{trace}", model_trace_settings, "Trace settings of a model"),
        _Post(f"/v2{trace}", _refusing(InvalidDescriptor, server.NO_TRACING)),
        _Post(f"{_MODEL}{trace}", _refusing(InvalidDescriptor, server.NO_TRACING)),
    ]


def _system(memory: PosixSharedMemory) -> Iterator[Row]:
    def described(region: Registration) -> documents.SystemRegion:
        return {
            "name": region.name,
            "key": region.key,
            "offset": region.offset,
            "byte_size": region.byte_size,
        }

    async def register_system_region(name: str, request: Request) -> documents.Nothing:
        """`key` names a POSIX shared memory object, `offset` and `byte_size` a part of it."""
        members = await _members(request)
        key = members.get("key")
        if not isinstance(key, str):
            raise InvalidDescriptor.of([Fault(("key",), f"must be a string, got {shown(key)}")])
        offset = _integer(members, "offset", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(memory.register, name, key, offset, byte_size)
        return {}

    body = partial(
        control_body,
        ["key", "byte_size"],
        key={"type": "string", "description": "The name of a POSIX shared memory object."},
        offset={"type": "integer", "minimum": 0},
        byte_size={"type": "integer", "minimum": 1},
    )
    path = "/v2/systemsharedmemory/region/{name}/register"
    yield _Post(path, register_system_region, "Register a region", operation=body)
    yield from _common("system", memory, described, documents.SystemRegion)


def _cuda(memory: CudaSharedMemory) -> Iterator[Row]:
    def described(region: Registration) -> documents.CudaRegion:
        return {"name": region.name, "device_id": region.object[0], "byte_size": region.byte_size}

    async def register_cuda_region(name: str, request: Request) -> documents.Nothing:
        """`raw_handle.b64` is a cudaIpcMemHandle_t; `byte_size` counts from its first byte."""
        members = await _members(request)
        handle = _handle(members.get("raw_handle"))
        device = _integer(members, "device_id", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(memory.register, name, handle, device, byte_size)
        return {}

    body = partial(
        control_body,
        ["raw_handle", "byte_size"],
        raw_handle={
            "type": "object",
            "required": ["b64"],
            "properties": {"b64": {"type": "string", "format": "byte"}},
        },
        device_id={"type": "integer", "minimum": 0},
        byte_size={"type": "integer", "minimum": 1},
    )
    path = "/v2/cudasharedmemory/region/{name}/register"
    yield _Post(path, register_cuda_region, "Register a CUDA region", operation=body)
    yield from _common("cuda", memory, described, documents.CudaRegion)


def _common(
    kind: str,
    memory: RegisteredMemory,
    describe: Callable[[Registration], Mapping[str, Any]],
    model: type,
) -> Iterator[Row]:
    """The routes that both extensions have, for the kind ``system`` or ``cuda``."""
    title = kind.upper() if kind == "cuda" else kind

    async def regions() -> list[Mapping[str, Any]]:
        """The regions registered through any worker."""
        return [describe(region) for region in await run_in_threadpool(memory.registered)]

    async def region(name: str) -> list[Mapping[str, Any]]:
        """The region, in a list of one."""
        return [describe(region) for region in await run_in_threadpool(memory.registered, name)]

    async def unregister_all() -> documents.Nothing:
        """The memory itself is not freed; current requests can still use it."""
        await run_in_threadpool(memory.unregister)
        return {}

    async def unregister(name: str) -> documents.Nothing:
        """The memory itself is not freed; current requests can still use it."""
        await run_in_threadpool(memory.unregister, name)
        return {}

    path, listed = f"/v2/{kind}sharedmemory", {"response_model": GenericAlias(list, (model,))}
    named = {"name": f"{kind}_regions", **listed}
    yield _Row(f"{path}/status", regions, f"All {title} regions", options=named)
    named = {"name": f"{kind}_region", **listed}
    yield _Row(f"{path}/region/{{name}}/status", region, f"One {title} region", options=named)
    yield _Post(
        f"{path}/unregister",
        unregister_all,
        f"Unregister all {title} regions",
        options={"name": f"unregister_{kind}_regions"},
    )
    yield _Post(
        f"{path}/region/{{name}}/unregister",
        unregister,
        f"Unregister a {title} region",
        options={"name": f"unregister_{kind}_region"},
    )


def _handle(value: Any) -> bytes:
    text = value.get("b64") if isinstance(value, dict) else None
    try:
        handle = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        handle = b""
    if len(handle) != HANDLE_BYTES:
        rule = f"must be the Base64 text of a handle's {HANDLE_BYTES} bytes"
        raise InvalidDescriptor.of([Fault(("raw_handle", "b64"), rule)])
    return handle


def _integer(members: Mapping[str, Any], name: str, minimum: int) -> int:
    value = members.get(name, 0)
    if type(value) is not int or value < minimum:
        rule = f"must be an integer of at least {minimum}, got {shown(value)}"
        raise InvalidDescriptor.of([Fault((name,), rule)])
    return value


def _refused(kind: str, reason: str) -> Iterator[Row]:
    async def refuse() -> None:
        """Not offered by this service."""
        raise NotOffered(reason)

    for method, path in (
        ("GET", "status"),
        ("GET", "region/{name}/status"),
        ("POST", "region/{name}/register"),
        ("POST", "unregister"),
        ("POST", "region/{name}/unregister"),
    ):
        yield _Row(f"/v2/{kind}sharedmemory/{path}", refuse, method=method)


def _refusing(error: type[RequestRefused], rule: str) -> Callable[[Request], Awaitable[None]]:
    """What refuses every request; ``{name}`` in the rule is the model, which must exist."""

    async def refuse(request: Request) -> None:
        name = request.path_params.get("name")
        if name is not None:
            find(name)
        raise error(rule.format(name=name))

    return refuse


async def _members(request: Request) -> dict[str, Any]:
    """The members of the JSON object in the body, for any Content-Type; none for an empty body."""
    job: Job = request.state.owner
    source, _ = content_of(AsgiRequest(request.scope, request.receive), job)
    body = await read_all(source, MAX_LENGTH, job.reserve, piece_bytes=CONTROL_PIECE_BYTES)
    document = strictjson.loads(body, max_depth=_MAX_DEPTH) if body else {}
    if not isinstance(document, dict):
        raise MalformedJSON("the body must be a JSON object")
    return document
