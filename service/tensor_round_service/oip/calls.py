"""The calls without a tensor: health, metadata, statistics, settings, shared memory.

They are named as in the protocol's gRPC service. The paths below ``/v2`` make the same calls.
Models and settings are fixed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tensor_round.contract.errors import InvalidDescriptor, NotOffered
from tensor_round.contract.quoting import shown
from tensor_round.contract.version import __version__

from ..service_types import NAME
from . import json_types
from .cuda_memory import HANDLE_BYTES, CudaSharedMemory
from .models import MODELS, Model, config_of, find, metadata_of, versions_of
from .posix_memory import PosixSharedMemory
from .regions import RegisteredMemory, Registration
from .statistics import Statistics

#: The members of a request: those of its message, or of its path and its JSON.
Members = Mapping[str, Any]
#: Answers a request with a document; raises refusals.
ControlCall = Callable[[Members], Awaitable[Any]]
M = TypeVar("M", bound=RegisteredMemory)


class ControlCalls(dict[str, ControlCall]):
    """The calls by name."""


#: The protocol's extensions that every service has.
_EXTENSIONS = (
    "binary_tensor_data",
    "parameters",
    "statistics",
    "model_configuration",
    "model_repository",
)
#: Triton's log settings. They are constant: the service's own settings control logging.
_LOGGING: json_types.LogSettings = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
_TRACE: json_types.TraceSettings = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


def control_calls(
    counts: Statistics,
    system: PosixSharedMemory | str,
    cuda: CudaSharedMemory | str,
    check_ready: Callable[[], Awaitable[None]],
) -> ControlCalls:
    """The calls by name; the docstring of each describes it in the OpenAPI document.

    A kind of shared memory may be the reason why it is not offered. ``check_ready`` raises a
    refusal if the service is not ready.
    """
    extensions = [*_EXTENSIONS]
    if not isinstance(system, str):
        extensions.append("system_shared_memory")
    if not isinstance(cuda, str):
        extensions.append("cuda_shared_memory")

    async def server_live(_members: Members) -> json_types.ServerLive:
        """Responds 200 as long as the event loop runs."""
        return {"live": True}

    async def server_ready(_members: Members) -> json_types.ServerReady:
        """Responds 200 if requests can be served, else 503."""
        await check_ready()
        return {"ready": True}

    async def server_metadata(_members: Members) -> json_types.ServerMetadata:
        """Name, version and the protocol extensions that are enabled."""
        return {"name": NAME, "version": __version__, "extensions": extensions}

    async def model_ready(members: Members) -> json_types.ModelReady:
        """Every version of every model is ready when the server is."""
        name = _model(members).name
        await check_ready()
        return {"name": name, "ready": True}

    async def model_statistics(members: Members) -> json_types.StatisticsReport:
        """Counts and durations of the inferences of each version."""
        return {"model_stats": counts.report(_models(members))}

    return ControlCalls(
        {
            "ServerLive": server_live,
            "ServerReady": server_ready,
            "ServerMetadata": server_metadata,
            "ModelReady": model_ready,
            "ModelMetadata": _model_metadata,
            "ModelConfig": _model_config,
            "ModelStatistics": model_statistics,
            "RepositoryIndex": _repository_index,
            "RepositoryModelLoad": _load_model,
            "RepositoryModelUnload": _unload_model,
            "LogSettings": _log_settings,
            "TraceSetting": _trace_setting,
            **_system_calls(system),
            **_cuda_calls(cuda),
        }
    )


def _model(members: Members) -> Model:
    return find(members.get("name", ""), members.get("version") or None)


def _models(members: Members) -> list[Model]:
    """The models that a request for statistics names: all without a name."""
    if not members.get("name"):
        return [*MODELS]
    return [_model(members)] if members.get("version") else versions_of(members["name"])


async def _model_metadata(members: Members) -> json_types.ModelMetadata:
    """Versions, and the names of input and output."""
    return metadata_of(_model(members))


async def _model_config(members: Members) -> json_types.ModelConfig:
    """Triton's configuration; `parameters` list all datatypes that the model accepts."""
    return config_of(_model(members))


async def _repository_index(members: Members) -> list[json_types.IndexEntry]:
    """Every version of every model; `ready` makes no difference, because all are ready."""
    ready = members.get("ready", True)
    if not isinstance(ready, bool):
        raise InvalidDescriptor.at(("ready",), f"must be true or false, got {shown(ready)}")
    return [{"name": m.name, "version": m.version, "state": "READY"} for m in MODELS]


async def _load_model(members: Members) -> json_types.Nothing:
    """Does nothing: every model is loaded."""
    _model(members)
    parameters = members.get("parameters", {})
    if not isinstance(parameters, dict):
        rule = f"must be an object, got {shown(parameters)}"
        raise InvalidDescriptor.at(("parameters",), rule)
    return {}


async def _unload_model(members: Members) -> json_types.Nothing:
    raise InvalidDescriptor(f"model {_model(members).name} is fixed and cannot be unloaded")


async def _log_settings(members: Members) -> json_types.LogSettings:
    """The log settings, in Triton's form."""
    if members.get("settings"):
        raise InvalidDescriptor("log settings are fixed when the service starts")
    return _LOGGING


async def _trace_setting(members: Members) -> json_types.TraceSettings:
    """Nothing is traced."""
    if members.get("name"):
        _model(members)
    if members.get("settings"):
        raise InvalidDescriptor("the service has no tracing")
    return _TRACE


def _system_calls(memory: PosixSharedMemory | str) -> dict[str, ControlCall]:
    async def status(members: Members) -> list[json_types.SystemRegion]:
        """The regions registered through any worker."""
        return [
            {"name": r.name, "key": r.key, "offset": r.offset, "byte_size": r.byte_size}
            for r in await _registered(memory, members)
        ]

    async def register(members: Members) -> json_types.Nothing:
        """`key` names a POSIX shared memory object, `offset` and `byte_size` a part of it."""
        add, key = _offered(memory).register, members.get("key")
        if not isinstance(key, str):
            raise InvalidDescriptor.at(("key",), f"must be a string, got {shown(key)}")
        offset, byte_size = _integer(members, "offset", 0), _integer(members, "byte_size", 1)
        await asyncio.to_thread(add, members.get("name", ""), key, offset, byte_size)
        return {}

    return {
        "SystemSharedMemoryStatus": status,
        "SystemSharedMemoryRegister": register,
        "SystemSharedMemoryUnregister": _unregister(memory),
    }


def _cuda_calls(memory: CudaSharedMemory | str) -> dict[str, ControlCall]:
    async def status(members: Members) -> list[json_types.CudaRegion]:
        """The regions registered through any worker."""
        return [
            {"name": r.name, "device_id": r.object[0], "byte_size": r.byte_size}
            for r in await _registered(memory, members)
        ]

    async def register(members: Members) -> json_types.Nothing:
        """`raw_handle.b64` is a cudaIpcMemHandle_t; `byte_size` counts from its first byte."""
        add, handle = _offered(memory).register, _handle(members.get("raw_handle"))
        device, byte_size = _integer(members, "device_id", 0), _integer(members, "byte_size", 1)
        await asyncio.to_thread(add, members.get("name", ""), handle, device, byte_size)
        return {}

    return {
        "CudaSharedMemoryStatus": status,
        "CudaSharedMemoryRegister": register,
        "CudaSharedMemoryUnregister": _unregister(memory),
    }


async def _registered(memory: RegisteredMemory | str, members: Members) -> list[Registration]:
    return await asyncio.to_thread(_offered(memory).registered, members.get("name") or None)


def _unregister(memory: RegisteredMemory | str) -> ControlCall:
    async def unregister(members: Members) -> json_types.Nothing:
        """The memory itself is not freed; current requests can still use it."""
        await asyncio.to_thread(_offered(memory).unregister, members.get("name") or None)
        return {}

    return unregister


def _offered(memory: M | str) -> M:
    if isinstance(memory, str):
        raise NotOffered(memory)
    return memory


def _handle(value: Any) -> bytes:
    """The bytes of an IPC handle, which JSON has in Base64."""
    if isinstance(value, dict):
        try:
            value = base64.b64decode(value["b64"], validate=True)
        except (KeyError, TypeError, ValueError):
            value = None
    if not isinstance(value, bytes | memoryview) or len(value) != HANDLE_BYTES:
        raise InvalidDescriptor.at(
            ("raw_handle",), f"must be a handle's {HANDLE_BYTES} bytes, in JSON as b64"
        )
    return bytes(value)


def _integer(members: Members, name: str, minimum: int) -> int:
    value = members.get(name, 0)
    if type(value) is not int or value < minimum:
        raise InvalidDescriptor.at(
            (name,), f"must be an integer of at least {minimum}, got {shown(value)}"
        )
    return value
