"""ASGI on both sides: requests from other servers, and an application's responses as ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .head import Header, MalformedRequest, RequestHead
from .request import ClientDisconnected, Progress, Request
from .response import FixedFields, Response

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

_CONTENT_LENGTH = b"content-length"
_NO_FIELDS = FixedFields()
#: Given to another server at a time, as it copies what it is given.
_PIECE_BYTES = 256 << 10


class AsgiRequest:
    """A :class:`.request.Request` that another server, or a test, has received."""

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
            self.head.length = None  # its server knows where the body ends
        self._scope = scope
        self._receive = receive
        self._left = memoryview(b"")
        self._is_last = False
        #: Bytes of the body that have come so far.
        self.received = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all of the body has been taken."""
        return self._is_last and not self._left

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address, where the server says it."""
        return self._scope.get("client")

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return str(self._scope.get("scheme", "http"))

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the body's next bytes; fewer only at its end. How many they were."""
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
    """Send a response through another server, and end its holder, however that ends.

    The server may keep what it is given for a while, so it is given copies.
    """
    length = (_CONTENT_LENGTH, b"%d" % sum(map(len, response.parts)))
    fields = [*response.fixed.fields, *response.headers, length]
    try:
        await send({"type": "http.response.start", "status": response.status, "headers": fields})
        for part in () if head_only else response.parts:
            for begin in range(0, len(part), _PIECE_BYTES):
                piece = bytes(part[begin : begin + _PIECE_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        if response.holder is not None:
            response.holder.end(settled=True)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def scope_of(request: Request, hidden: frozenset[bytes]) -> Scope:
    """The request as ASGI has it, without the fields that are to be seen by nobody.

    A HEAD is a GET there, as frameworks have no routes for it: whoever sends the response leaves
    its body out.
    """
    head = request.head
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
        "headers": [field for field in head.fields if field[0] not in hidden],
        "client": request.client,
        "server": None,
        "state": {},
    }


async def respond_by_asgi(
    application: AsgiApplication, request: Request, hidden: frozenset[bytes] = frozenset()
) -> Response:
    """The response of an ASGI application, whole.

    Sent piece by piece, a response to a request whose body has not come yet could not say that
    its connection ends with it. Raises :class:`ClientDisconnected`.
    """
    start: Message = {}
    parts: list[bytes] = []
    end: Exception | None = None

    async def receive() -> Message:
        nonlocal end
        if end is not None:
            await asyncio.get_running_loop().create_future()  # until the application is done
        piece = bytearray(_PIECE_BYTES)
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

    # A task of its own: what a framework does may ask for the current one.
    await asyncio.ensure_future(_run(application(scope_of(request, hidden), receive, send)))
    if end is not None:
        raise end
    fields: list[Header] = [field for field in start["headers"] if field[0] != _CONTENT_LENGTH]
    return Response(start["status"], _NO_FIELDS, parts, fields)


async def _run(awaitable: Awaitable[None]) -> None:
    await awaitable
