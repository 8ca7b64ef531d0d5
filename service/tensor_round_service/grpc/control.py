"""The methods without a tensor: each makes the call of its name, as its path under ``/v2`` does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from tensor_round.contract.errors import InvalidDescriptor, RequestRefused

from ..engine.job import Job
from ..oip import calls
from .call import Call, Method, prefixed
from .messages import SCHEMA, choice
from .protobuf import Malformed, Message
from .status import OK

SERVICE = "inference.GRPCInferenceService"
#: Methods that need no key, as the paths of health under ``/v2``.
OPEN_METHODS = frozenset({f"/{SERVICE}/ServerLive", f"/{SERVICE}/ServerReady"})
#: Values of ``inference.DataType``: of the types that the metadata advertise.
_DATA_TYPES = {"TYPE_UINT8": 2, "TYPE_FP32": 11}
#: The most fields of a request.
_MAX_VALUES = 1024

#: Answers a request with a message's fields; raises refusals.
Answer = Callable[[Message], Awaitable[Mapping[str, Any]]]


def control_methods(offered: Mapping[str, calls.ControlCall]) -> dict[str, Method]:
    """The methods by path, of the calls by name."""
    return {
        f"/{SERVICE}/{name}": unary(f".inference.{name}", partial(_answer, name, call))
        for name, call in offered.items()
    }


async def _answer(name: str, call: calls.ControlCall, request: Message) -> Any:
    """The document of a call as the fields of a message."""
    if "model_name" in request:
        request["name"] = request["model_name"]
    try:
        document = await call(request)
    except RequestRefused:
        # As Triton has it: over HTTP clients take any error for a no.
        if name not in ("ServerReady", "ModelReady"):
            raise
        return {"ready": False}
    match name:
        case "ModelConfig":
            return {"config": _config(document)}
        case "RepositoryIndex":
            return {"models": document}
        case "LogSettings":
            return {
                "settings": {key: choice(value, "uint32_param") for key, value in document.items()}
            }
        case "TraceSetting":
            values = {
                key: [value] if isinstance(value, str) else value for key, value in document.items()
            }
            return {"settings": {key: {"value": value} for key, value in values.items()}}
        case "SystemSharedMemoryStatus" | "CudaSharedMemoryStatus":
            return {"regions": {region["name"]: region for region in document}}
    return document


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


def _config(document: Mapping[str, Any]) -> Message:
    """The configuration with versions as numbers, and the numbers of data types."""
    config: Message = {**document}
    for name in ("input", "output"):
        config[name] = [
            {**tensor, "data_type": _DATA_TYPES[tensor["data_type"]]} for tensor in config[name]
        ]
    # Versions such as 2_1 are no numbers: they are in the metadata alone.
    numbers = [int(v) for v in config["version_policy"]["specific"]["versions"] if v.isdigit()]
    config["version_policy"] = {"specific": {"versions": numbers}}
    return config
