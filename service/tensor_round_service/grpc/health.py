"""``grpc.health.v1.Health``: whether the service takes calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tensor_round.contract.errors import NotFound, Overloaded, RequestRefused
from tensor_round.contract.quoting import shown

from ..engine.job import Job
from ..engine.memory import Memory
from ..net.http2.serving import ServedStream
from .call import Call, Method, prefixed
from .control import SERVICE, read, unary
from .messages import SCHEMA
from .protobuf import Message
from .status import OK, CallRefused, Status

NAME = "grpc.health.v1.Health"
OPEN_METHODS = frozenset(f"/{NAME}/{method}" for method in ("Check", "List", "Watch"))
#: Seconds between two looks at a service that is watched, for all watches together.
LOOK_SECONDS = 0.5
#: The most watches of a connection, which need no key and may last for ever.
MAX_WATCHES = 8
#: What a watch takes of the budget: its stream and its task. All take one part in so many at most.
WATCH_BYTES = 8 << 10
WATCH_SHARE = 8
#: Watches that are woken in one turn of the event loop.
_WOKEN_AT_ONCE = 32
#: The values of ``ServingStatus``.
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_KNOWN = ("", SERVICE, NAME)
_MESSAGE = ".grpc.health.v1.HealthCheck"


@dataclass(frozen=True, slots=True)
class _Found:
    """What one look has found: the status, and whether the watches end with it."""

    status: int
    ends: bool


class _Watches:
    """All watches of a process. One task looks for them, and wakes them when it finds a change."""

    def __init__(self, look: Callable[[], Awaitable[_Found]], memory: Memory) -> None:
        self._look = look
        self._most = memory.limit_bytes // WATCH_SHARE // WATCH_BYTES
        self._count = 0
        #: Their number by connection.
        self._open: Counter[Hashable] = Counter()
        self._waiting: set[asyncio.Future[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._found: _Found | None = None

    @contextmanager
    def opened(self, connection: Hashable) -> Iterator[None]:
        """Count a watch of a connection; raises a refusal if there are too many."""
        if self._open[connection] >= MAX_WATCHES:
            rule = f"a connection may have {MAX_WATCHES} calls of Health/Watch at a time"
            raise CallRefused(Status.RESOURCE_EXHAUSTED, rule)
        if self._count >= self._most:
            rule = f"the service has {self._most} calls of Health/Watch, as many as it may have"
            raise Overloaded(rule, retry_after=1)
        self._count += 1
        self._open[connection] += 1
        try:
            yield
        finally:
            self._count -= 1
            self._open[connection] -= 1
            if not self._open[connection]:
                del self._open[connection]

    async def found(self) -> _Found:
        """What the last look has found."""
        if self._looking is None or self._found is None:
            self._found = await self._look()
            if self._looking is None:
                self._looking = asyncio.create_task(self._keep_looking())
        return self._found

    async def changed(self, last: _Found, stream: ServedStream) -> None:
        """Wait until something else is found than ``last``, or the caller goes."""
        if self._found != last:
            return
        news = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            await stream.until(news)
        finally:
            self._waiting.discard(news)

    async def _keep_looking(self) -> None:
        try:
            while self._count:
                await asyncio.sleep(LOOK_SECONDS)
                found = await self._look()
                if found != self._found:
                    self._found = found
                    await self._wake()
        finally:
            self._looking = None

    async def _wake(self) -> None:
        for number, news in enumerate([*self._waiting]):
            if not news.done():
                news.set_result(None)
            if number % _WOKEN_AT_ONCE == _WOKEN_AT_ONCE - 1:
                await asyncio.sleep(0)


def health_methods(
    check_ready: Callable[[], Awaitable[None]], is_draining: Callable[[], bool], memory: Memory
) -> dict[str, Method]:
    """The methods by path. ``check_ready`` raises a refusal if the service is not ready."""

    async def status() -> int:
        try:
            await check_ready()
        except RequestRefused:
            return _NOT_SERVING
        return _SERVING

    async def look() -> _Found:
        ends = is_draining()  # before the status, which then says so
        return _Found(await status(), ends)

    watches = _Watches(look, memory)

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
        with watches.opened(call.stream.connection):
            job.reserve(WATCH_BYTES)
            while True:
                found = await watches.found()
                now = found.status if is_known else _SERVICE_UNKNOWN
                if now != last:
                    message = SCHEMA.write(f"{_MESSAGE}Response", {"status": now})
                    if not await call.respond([prefixed(message)]):
                        return False
                    last = now
                if found.ends:
                    return await call.respond([], OK)
                await watches.changed(found, call.stream)

    return {
        f"/{NAME}/Check": unary(_MESSAGE, check),
        f"/{NAME}/List": unary(".grpc.health.v1.HealthList", list_all),
        f"/{NAME}/Watch": watch,
    }
