"""``grpc.health.v1.Health``: whether the service takes calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tensor_round.contract.errors import NotFound, RequestRefused
from tensor_round.contract.quoting import shown

from ..content.sources import ClientDisconnected
from ..engine.job import Job
from .call import Call, Method, prefixed
from .control import SERVICE, read, unary
from .messages import SCHEMA
from .protobuf import Message
from .status import OK

NAME = "grpc.health.v1.Health"
OPEN_METHODS = frozenset(f"/{NAME}/{method}" for method in ("Check", "List", "Watch"))
#: Seconds between two looks at a service that is watched.
LOOK_SECONDS = 0.5
#: The values of ``ServingStatus``.
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_KNOWN = ("", SERVICE, NAME)
_MESSAGE = ".grpc.health.v1.HealthCheck"


def health_methods(
    check_ready: Callable[[], Awaitable[None]], is_draining: Callable[[], bool]
) -> dict[str, Method]:
    """The methods by path. ``check_ready`` raises a refusal if the service is not ready."""

    async def status() -> int:
        try:
            await check_ready()
        except RequestRefused:
            return _NOT_SERVING
        return _SERVING

    async def check(request: Message) -> Message:
        service = request.get("service", "")
        if service not in _KNOWN:
            raise NotFound(f"there is no service {shown(service)}")
        return {"status": await status()}

    async def list_all(_request: Message) -> Message:
        now = {"status": await status()}
        return {"statuses": dict.fromkeys(_KNOWN, now)}

    async def watch(call: Call, job: Job) -> bool:
        """Answer with each new status, until the caller goes or the service stops."""
        request = read(f"{_MESSAGE}Request", await call.request(job))
        is_known = request.get("service", "") in _KNOWN
        last = 0
        while True:
            ends = is_draining()  # before the status, which then says so
            now = await status() if is_known else _SERVICE_UNKNOWN
            if now != last:
                message = SCHEMA.write(f"{_MESSAGE}Response", {"status": now})
                if not await call.respond([prefixed(message)]):
                    return False
                last = now
            if ends:
                return await call.respond([], OK)
            await asyncio.sleep(LOOK_SECONDS)
            if call.stream.is_gone():
                raise ClientDisconnected

    return {
        f"/{NAME}/Check": unary(_MESSAGE, check),
        f"/{NAME}/List": unary(".grpc.health.v1.HealthList", list_all),
        f"/{NAME}/Watch": watch,
    }
