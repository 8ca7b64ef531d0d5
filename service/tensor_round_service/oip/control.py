"""The ``/v2`` routes besides inference: each makes one of the calls without a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, get_type_hints

from fastapi import Request

from tensor_round.contract.errors import InvalidDescriptor, NotFound
from tensor_round.contract.quoting import shown
from tensor_round.contract.wire import strictjson

from ..engine.job import Job
from ..net.asgi import CONTROL_PIECE_BYTES, AsgiRequest
from ..net.bodies import read_all
from ..routes.table import RouteEntry
from ..routes.tensor_route import content_of
from .calls import ControlCall
from .operations import BODIES, TAG, control_body, refused_operation

#: Maximum length of a control request's body in bytes.
MAX_LENGTH = 64 << 10
_MAX_DEPTH = 16

_NO_MODELS = "there is nothing at this path; POST /v2/repository/index lists the models"
_MODEL, _VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{model_version}"
_OF_REPOSITORY = "/v2/repository/models/{name}"

#: Method, path, call, operation id, and summary; without one a path is not in the OpenAPI document.
_Entry = tuple[str, str, str, str, str]
_ENTRIES: tuple[_Entry, ...] = (
    ("GET", "/v2", "ServerMetadata", "server_metadata", "Server metadata"),
    ("GET", "/v2/health/live", "ServerLive", "server_live", "Is the server alive?"),
    ("GET", "/v2/health/ready", "ServerReady", "server_ready", "Can the server infer?"),
    # Before the paths of a model, so that "stats" is not taken for a model's name.
    ("GET", "/v2/models/stats", "ModelStatistics", "all_statistics", "Statistics of all models"),
    ("GET", _MODEL, "ModelMetadata", "model_metadata", "Model metadata"),
    ("GET", _VERSION, "ModelMetadata", "model_version_metadata", "Metadata of a version"),
    ("GET", f"{_MODEL}/ready", "ModelReady", "model_ready", "Can the model infer?"),
    ("GET", f"{_VERSION}/ready", "ModelReady", "model_version_ready", "Can the version infer?"),
    ("GET", f"{_MODEL}/config", "ModelConfig", "model_config", "Model configuration"),
    ("GET", f"{_VERSION}/config", "ModelConfig", "model_version_config", "Version's configuration"),
    ("GET", f"{_MODEL}/stats", "ModelStatistics", "model_statistics", "Model statistics"),
    (
        "GET",
        f"{_VERSION}/stats",
        "ModelStatistics",
        "model_version_statistics",
        "Version statistics",
    ),
    ("POST", "/v2/repository/index", "RepositoryIndex", "repository_index", "List the models"),
    ("POST", f"{_OF_REPOSITORY}/load", "RepositoryModelLoad", "load_model", "Load a model"),
    ("POST", f"{_OF_REPOSITORY}/unload", "RepositoryModelUnload", "unload_model", "Unload a model"),
    ("GET", "/v2/logging", "LogSettings", "log_settings", "Log settings"),
    ("POST", "/v2/logging", "LogSettings", "change_log_settings", "Change log settings"),
    ("GET", "/v2/trace/setting", "TraceSetting", "trace_settings", "Trace settings"),
    ("POST", "/v2/trace/setting", "TraceSetting", "change_trace_settings", "Change trace settings"),
    ("GET", f"{_MODEL}/trace/setting", "TraceSetting", "model_trace_settings", "Model's traces"),
    (
        "POST",
        f"{_MODEL}/trace/setting",
        "TraceSetting",
        "change_model_trace_settings",
        "Change a model's traces",
    ),
)


def control_rows(
    calls: Mapping[str, ControlCall], *, has_system: bool, has_cuda: bool
) -> list[RouteEntry]:
    """The routes of the calls; those of a missing kind of shared memory are not documented."""
    entries = [
        *_ENTRIES,
        *_memory_entries("system", "system", is_offered=has_system),
        *_memory_entries("cuda", "CUDA", is_offered=has_cuda),
    ]
    # Before the paths of a model, too.
    return [
        RouteEntry("/v2/models", _no_models, is_counted=False),
        *(_row(calls, *e) for e in entries),
    ]


def _memory_entries(kind: str, title: str, *, is_offered: bool) -> Iterator[_Entry]:
    path, region = f"/v2/{kind}sharedmemory", f"/v2/{kind}sharedmemory/region/{{name}}"
    for method, at, verb, name, summary in (
        ("GET", path, "status", f"{kind}_regions", f"All {title} regions"),
        ("GET", region, "status", f"{kind}_region", f"One {title} region"),
        ("POST", region, "register", f"register_{kind}_region", f"Register a {title} region"),
        (
            "POST",
            path,
            "unregister",
            f"unregister_{kind}_regions",
            f"Unregister all {title} regions",
        ),
        ("POST", region, "unregister", f"unregister_{kind}_region", f"Unregister a {title} region"),
    ):
        call = f"{kind.title()}SharedMemory{verb.title()}"
        yield method, f"{at}/{verb}", call, name, summary if is_offered else ""


def _row(
    calls: Mapping[str, ControlCall], method: str, path: str, call: str, name: str, summary: str
) -> RouteEntry:
    answer, has_body = calls[call], call in BODIES
    # Settings are changed by the method that other paths are read by.
    fixed = {"settings": True} if name.startswith("change_") else {}
    is_refused = bool(fixed) or call == "RepositoryModelUnload"
    operation = partial(control_body, call) if has_body and summary else None

    async def endpoint(request: Request) -> Any:
        members = await _members(request) if has_body else {}
        named = {key.removeprefix("model_"): text for key, text in request.path_params.items()}
        return await answer({**members, **named, **fixed})

    is_told = bool(summary) and not is_refused
    response = get_type_hints(answer)["return"] if is_told else None
    is_probe = path.startswith("/v2/health/")
    return RouteEntry(
        path=path,
        endpoint=endpoint,
        summary=summary,
        tag=TAG,
        method=method,
        link="v2" if path == "/v2" else "",
        is_open=is_probe,
        is_probe=is_probe,
        is_counted=is_probe,
        operation=refused_operation if is_refused else operation,
        options={
            "name": name,
            "description": "Always refused: it is fixed." if is_refused else answer.__doc__,
            "response_model": response,
        },
    )


async def _no_models() -> None:
    raise NotFound(_NO_MODELS)


async def _members(request: Request) -> dict[str, Any]:
    """The members of the JSON object in the body, for any Content-Type; none for an empty body."""
    job: Job = request.state.owner
    source, _ = content_of(AsgiRequest(request.scope, request.receive), job)
    body = await read_all(source, MAX_LENGTH, job.reserve, piece_bytes=CONTROL_PIECE_BYTES)
    document = strictjson.loads(body, max_depth=_MAX_DEPTH) if body else {}
    if not isinstance(document, dict):
        raise InvalidDescriptor.at((), f"the body must be a JSON object, got {shown(document)}")
    return document
