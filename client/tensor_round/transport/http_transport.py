"""The client's own transport: HTTP/1.1 on persistent connections, without copies of payloads.

httpx2 copies each body three times, in pieces of 64 KiB. At 64 MiB that takes longer than the rest
of the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from ..messages.request import Headers, Request
from ..messages.response_readers import ResponseReader
from .address import Address
from .connection import Connection
from .deadline import Deadline
from .interface import Transport

#: Cached beginnings of request heads; each has a few hundred bytes.
_CACHED_HEADS = 256


class Connections(Protocol):
    """A pool of connections."""

    async def acquire(self, deadline: Deadline) -> Connection:
        """A connection for the caller alone."""

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool."""

    async def close(self) -> None:
        """Close all connections."""


class HTTPTransport(Transport):
    """Sends requests to one address over a pool of connections, blocking or asynchronous.

    ``common`` are the headers of every request.
    """

    def __init__(self, address: Address, common: Headers, pool: Connections) -> None:
        self._head_start = _head_start_cache(
            address.prefix.encode(), _lines([(b"Host", address.host_header.encode()), *common])
        )
        self._pool = pool

    async def send(self, request: Request, deadline: Deadline) -> HTTPResponse:
        """Send a request, and receive the head of its response."""
        start = self._head_start(request.method, request.path, request.fixed)
        head = b"%s%s\r\n" % (start, _lines(request.varying))
        connection = await self._pool.acquire(deadline)
        try:
            response = await connection.send_request(head, request.body, deadline)
        except BaseException:
            connection.close()
            self._pool.release(connection)
            raise
        return HTTPResponse(response.status, response.fields, connection, self._pool)

    async def close(self) -> None:
        """Close idle connections now, and the others when their responses are closed."""
        await self._pool.close()


class HTTPResponse:
    """A response, with the connection that its body is received on."""

    __slots__ = ("_connection", "_pool", "fields", "status")

    def __init__(
        self, status: int, fields: Mapping[str, str], connection: Connection, pool: Connections
    ) -> None:
        self.status = status
        self.fields = fields
        self._connection = connection
        self._pool = pool

    def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> Awaitable[None]:
        """Receive the body into the reader's buffers; the request's deadline applies."""
        return self._connection.receive_body(reader)

    async def close(self) -> None:
        """Release the connection; close it unless the response was read to its end."""
        if not self._connection.is_reusable:
            self._connection.close()
        self._pool.release(self._connection)


def _head_start_cache(
    prefix: bytes, common: bytes
) -> Callable[[str, str, tuple[tuple[bytes, bytes], ...]], bytes]:
    """A cached function that writes the fixed part of a request head; one for each client."""

    @lru_cache(maxsize=_CACHED_HEADS)
    def head_start(method: str, path: str, fixed: tuple[tuple[bytes, bytes], ...]) -> bytes:
        request_line = b"%s %s%s HTTP/1.1\r\n" % (method.encode(), prefix, path.encode())
        return b"".join((request_line, common, _lines(fixed)))

    return head_start


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % field for field in headers])
