"""The methods without a tensor: health, metadata, statistics, settings, shared memory.

They answer as their paths under ``/v2`` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    NotFound,
    NotOffered,
    RequestRefused,
)

from ..engine.job import Job
from ..oip import server
from ..oip.cuda_memory import HANDLE_BYTES, CudaSharedMemory
from ..oip.inference import OpenInference
from ..oip.models import MODELS, Model, config_of, find, metadata_of, versions_of
from ..oip.plan import NO_SHARED_MEMORY
from ..oip.posix_memory import PosixSharedMemory
from ..oip.regions import RegisteredMemory, Registration
from .call import Call, Method, prefixed
from .messages import SCHEMA
from .protobuf import Malformed, Message
from .status import OK

SERVICE = "inference.GRPCInferenceService"
#: Methods that need no key, as the paths of health under ``/v2``.
OPEN_METHODS = frozenset({f"/{SERVICE}/ServerLive", f"/{SERVICE}/ServerReady"})
#: Values of ``inference.DataType``: of the type that the metadata advertise.
_DATA_TYPES = {"TYPE_FP32": 11}
#: The most fields of a request.
_MAX_VALUES = 1024

#: Answers a request with a message's fields; raises refusals.
Answer = Callable[[Message], Awaitable[Mapping[str, Any]]]


def control_methods(
    offered: OpenInference, check_ready: Callable[[], Awaitable[None]]
) -> dict[str, Method]:
    """The methods by path. ``check_ready`` raises a refusal if the service is not ready."""
    counts = offered.inference.counts
    shared_memory, cuda_memory = offered.shared_memory, offered.cuda_memory
    metadata = server.server_metadata(
        has_system_memory=shared_memory is not None,
        has_cuda_memory=not isinstance(cuda_memory, str),
    )

    async def is_ready() -> bool:
        try:
            await check_ready()
        except RequestRefused:
            return False
        return True

    async def server_live(_request: Message) -> Message:
        return {"live": True}

    async def server_ready(_request: Message) -> Message:
        return {"ready": await is_ready()}

    async def model_ready(request: Message) -> Message:
        try:
            _model(request)
        except NotFound:  # as Triton has it: over HTTP clients take any error for a no
            return {"ready": False}
        return {"ready": await is_ready()}

    async def server_metadata(_request: Message) -> Mapping[str, Any]:
        return metadata

    async def model_metadata(request: Message) -> Mapping[str, Any]:
        return metadata_of(_model(request))

    async def model_config(request: Message) -> Message:
        return {"config": _config(_model(request))}

    async def model_statistics(request: Message) -> Message:
        return {"model_stats": [counts.describe(model) for model in _models(request)]}

    async def repository_index(_request: Message) -> Message:
        return {"models": server.repository_index()}

    async def load_model(request: Message) -> Message:
        find(request.get("model_name", ""))
        return {}

    async def unload_model(request: Message) -> Message:
        name = find(request.get("model_name", "")).name
        raise InvalidDescriptor(server.FIXED_MODEL.format(name=name))

    async def log_settings(request: Message) -> Message:
        if request.get("settings"):
            raise InvalidDescriptor(server.FIXED_LOGGING)
        return {"settings": {name: _setting(value) for name, value in server.LOGGING.items()}}

    async def trace_setting(request: Message) -> Message:
        if request.get("model_name"):
            find(request["model_name"])
        if request.get("settings"):
            raise InvalidDescriptor(server.NO_TRACING)
        values = {
            name: [value] if isinstance(value, str) else value
            for name, value in server.TRACE.items()
        }
        return {"settings": {name: {"value": value} for name, value in values.items()}}

    answers: dict[str, Answer] = {
        "ServerLive": server_live,
        "ServerReady": server_ready,
        "ModelReady": model_ready,
        "ServerMetadata": server_metadata,
        "ModelMetadata": model_metadata,
        "ModelConfig": model_config,
        "ModelStatistics": model_statistics,
        "RepositoryIndex": repository_index,
        "RepositoryModelLoad": load_model,
        "RepositoryModelUnload": unload_model,
        "LogSettings": log_settings,
        "TraceSetting": trace_setting,
        **dict(_system(shared_memory)),
        **dict(_cuda(cuda_memory)),
    }
    return {f"/{SERVICE}/{name}": unary(f".inference.{name}", answers[name]) for name in answers}


def unary(name: str, answer: Answer) -> Method:
    """The method whose messages are ``{name}Request`` and ``{name}Response``."""

    async def method(call: Call, job: Job) -> bool:
        request = read(f"{name}Request", await call.request(job))
        response = SCHEMA.write(f"{name}Response", await answer(request))
        return await call.respond([prefixed(response)], OK)

    return method


def read(name: str, content: bytes | memoryview) -> Message:
    """A small message; raises :class:`InvalidDescriptor`."""
    try:
        return SCHEMA.read(name, content, _MAX_VALUES)
    except Malformed as error:
        raise InvalidDescriptor(f"{name.rpartition('.')[2]}: {error}") from None


def _model(request: Message) -> Model:
    return find(request.get("name", ""), request.get("version") or None)


def _models(request: Message) -> list[Model]:
    """The models that a request for statistics names: all without a name."""
    if not request.get("name"):
        return [*MODELS]
    if not request.get("version"):
        return versions_of(request["name"])
    return [_model(request)]


def _config(model: Model) -> Message:
    """The configuration with versions as numbers, and the numbers of data types."""
    config: Message = {**config_of(model)}
    for name in ("input", "output"):
        config[name] = [
            {**tensor, "data_type": _DATA_TYPES[tensor["data_type"]]} for tensor in config[name]
        ]
    # Versions such as 2_1 are no numbers: they are in the metadata alone.
    numbers = [int(v) for v in config["version_policy"]["specific"]["versions"] if v.isdigit()]
    config["version_policy"] = {"specific": {"versions": numbers}}
    return config


def _setting(value: object) -> Message:
    """A log setting as the protocol's choice of types."""
    match value:
        case bool():
            return {"bool_param": value}
        case int():
            return {"uint32_param": value}
    return {"string_param": value}


def _system(memory: PosixSharedMemory | None) -> Iterator[tuple[str, Answer]]:
    kind = "SystemSharedMemory"
    if memory is None:
        yield from _refused(kind, NO_SHARED_MEMORY)
        return
    register = memory.register

    async def answer(request: Message) -> Message:
        offset, nbytes = request.get("offset", 0), _integer(request, "byte_size", 1)
        name, key = request.get("name", ""), request.get("key", "")
        await asyncio.to_thread(register, name, key, offset, nbytes)
        return {}

    def described(region: Registration) -> Message:
        return {"key": region.key, "offset": region.offset}

    yield f"{kind}Register", answer
    yield from _common(kind, memory, described)


def _cuda(memory: CudaSharedMemory | str) -> Iterator[tuple[str, Answer]]:
    kind = "CudaSharedMemory"
    if isinstance(memory, str):
        yield from _refused(kind, memory)
        return
    register = memory.register

    async def answer(request: Message) -> Message:
        handle = bytes(request.get("raw_handle", b""))
        if len(handle) != HANDLE_BYTES:
            rule = f"must be a handle's {HANDLE_BYTES} bytes"
            raise InvalidDescriptor.of([Fault(("raw_handle",), rule)])
        device, nbytes = _integer(request, "device_id", 0), _integer(request, "byte_size", 1)
        await asyncio.to_thread(register, request.get("name", ""), handle, device, nbytes)
        return {}

    def described(region: Registration) -> Message:
        return {"device_id": region.object[0]}

    yield f"{kind}Register", answer
    yield from _common(kind, memory, described)


def _common(
    kind: str, memory: RegisteredMemory, describe: Callable[[Registration], Message]
) -> Iterator[tuple[str, Answer]]:
    """The methods that both kinds have."""

    async def status(request: Message) -> Message:
        regions = await asyncio.to_thread(memory.registered, request.get("name") or None)
        return {
            "regions": {
                each.name: {"name": each.name, "byte_size": each.byte_size, **describe(each)}
                for each in regions
            }
        }

    async def unregister(request: Message) -> Message:
        await asyncio.to_thread(memory.unregister, request.get("name") or None)
        return {}

    yield f"{kind}Status", status
    yield f"{kind}Unregister", unregister


def _integer(request: Message, name: str, minimum: int) -> int:
    value: int = request.get(name, 0)
    if value < minimum:
        rule = f"must be an integer of at least {minimum}, got {value}"
        raise InvalidDescriptor.of([Fault((name,), rule)])
    return value


def _refused(kind: str, reason: str) -> Iterator[tuple[str, Answer]]:
    async def refuse(_request: Message) -> Message:
        raise NotOffered(reason)

    for verb in ("Status", "Register", "Unregister"):
        yield f"{kind}{verb}", refuse
