"""ASGI adapters: requests of other servers to our routes, our requests to an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any, Protocol

from .bodies import ClientDisconnected, Progress
from .head import Header, MalformedRequest, traceparent_of
from .http1.head import RequestHead
from .request import Request
from .response import NOT_MODIFIED, FixedFields, MemoryOwner, Response

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

_CONTENT_LENGTH = b"content-length"
_NO_FIELDS = FixedFields()
#: Size of the pieces in which a response passes through ASGI; ASGI servers copy each piece.
_PIECE_BYTES = 256 << 10
#: Size of the pieces in which FastAPI gets a body, which is a small JSON object if there is any.
CONTROL_PIECE_BYTES = 4 << 10
#: An answer of FastAPI takes no part of the budget up to this size, which is less than its
#: connection takes: health is answered also if the budget is used up.
FREE_BYTES = 4 << 10


class Reserving(MemoryOwner, Protocol):
    """Owns the memory of a request and of its response, which is reserved in a budget."""

    def reserve(self, nbytes: int) -> None:
        """Reserve ``nbytes`` more bytes; raises a refusal if there is no room."""


class AsgiRequest:
    """A :class:`.request.Request` received by another ASGI server."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.head = RequestHead(
            scope["method"],
            scope.get("raw_path") or scope["path"].encode(),
            scope.get("http_version", "1.1"),
            list(scope["headers"]),
            scope["path"],
            scope["query_string"],
        )
        if _CONTENT_LENGTH not in self.head.values:
            self.head.length = None  # the server reports the end of the body
        self._scope = scope
        self._receive = receive
        self._left = memoryview(b"")
        self._is_last = False
        #: Bytes of the body that have come so far.
        self.received = 0
        self.began = perf_counter()
        self.key = ""

    @property
    def is_at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self._is_last and not self._left

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address, if the server reports it."""
        return self._scope.get("client")

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return str(self._scope.get("scheme", "http"))

    def is_gone(self) -> bool:
        """Not known: the server says so only to a receiver, after the body."""
        return False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the body's next bytes; return their count, less only at the end."""
        filled = 0
        while filled < len(target) and not self.is_at_end:
            if not self._left:
                self._left = await self._message()
            count = min(len(self._left), len(target) - filled)
            target[filled : filled + count] = self._left[:count]
            self._left = self._left[count:]
            filled += count
        return filled

    async def _message(self) -> memoryview:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        self._is_last = not message.get("more_body", False)
        body = message.get("body", b"")
        self.received += len(body)
        return memoryview(body)


async def send_response(response: Response, send: Send, *, head_only: bool) -> None:
    """Send a response through another ASGI server, and always release its memory.

    The server gets copies, because it may use them after ``send`` returns.
    """
    fields = [*response.fixed.fields, *response.headers]
    if response.status != NOT_MODIFIED:
        fields.append((_CONTENT_LENGTH, b"%d" % sum(map(len, response.parts))))
    is_sent = False
    try:
        await send({"type": "http.response.start", "status": response.status, "headers": fields})
        for part in () if head_only else response.parts:
            for begin in range(0, len(part), _PIECE_BYTES):
                piece = bytes(part[begin : begin + _PIECE_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        is_sent = True
    finally:
        if response.owner is not None:
            response.owner.end(reusable=True, is_sent=is_sent)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def scope_of(request: Request, hidden: frozenset[bytes]) -> Scope:
    """The request as an ASGI scope, without the ``hidden`` fields.

    HEAD becomes GET, because frameworks have no routes for HEAD. The connection omits the body
    of the response.
    """
    head = request.head
    # HTTP/2 has it in a pseudo-field.
    named = [] if b"host" in head.values else [(b"host", head.authority or b"")]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": head.version,
        "method": "GET" if head.method == "HEAD" else head.method,
        "scheme": request.scheme,
        "path": head.path,
        "raw_path": head.target.partition(b"?")[0],
        "query_string": head.query,
        "root_path": "",
        "headers": [*named, *(field for field in head.fields if field[0] not in hidden)],
        "client": request.client,
        "server": None,
        "state": {"traceparent": traceparent_of(head)},
    }


async def respond_by_asgi(
    application: AsgiApplication,
    request: Request,
    owner: Reserving,
    hidden: frozenset[bytes] = frozenset(),
) -> Response:
    """Run an ASGI application and return its complete response.

    ``owner`` reserves its memory, unless it is shared: parts that are views of memory that the
    application keeps. The application finds it in the scope's state, to reserve what it reads. The
    response owns it, or it has been released if this raises.

    The response is collected before it is sent: whether the connection closes after it depends
    on how much of the request's body the application has read. For a refusal, the application
    sets ``code`` in the scope's state. Raises :class:`ClientDisconnected`.
    """
    start: Message = {}
    parts: list[bytes | memoryview] = []
    end: Exception | None = None

    async def receive() -> Message:
        nonlocal end
        if end is not None:
            await asyncio.get_running_loop().create_future()  # until the application returns
        piece = bytearray(CONTROL_PIECE_BYTES)
        try:
            count = await request.receive_into(memoryview(piece))
        except (ClientDisconnected, MalformedRequest) as error:
            end = error
            return {"type": "http.disconnect"}
        body = bytes(piece[:count])
        return {"type": "http.request", "body": body, "more_body": count == len(piece)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    # Frameworks may use the current task, which an eagerly started coroutine does not have.
    scope = scope_of(request, hidden)
    scope["state"]["owner"] = owner
    try:
        await asyncio.ensure_future(application(scope, receive, send))
        if end is not None:
            raise end
        own_bytes = sum(len(part) for part in parts if isinstance(part, bytes))
        if own_bytes > FREE_BYTES:
            owner.reserve(own_bytes)
    except BaseException:
        owner.end(reusable=False, is_sent=False)
        raise
    fields: list[Header] = [field for field in start["headers"] if field[0] != _CONTENT_LENGTH]
    response = Response(start["status"], _NO_FIELDS, parts, fields)
    response.code = scope["state"].get("code", "")
    response.owner = owner
    return response
