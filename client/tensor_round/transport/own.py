"""The client's own transport: from memory, into memory, over connections that are kept.

httpx2's own hands out bodies in pieces of 64 KiB that were each copied three times; at
64 MiB that takes longer than everything else in a call together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from ..messages.reader import Intake
from ..messages.request import Headers, Request
from .address import Address
from .connection import Connection
from .deadline import Deadline

#: Beginnings of requests that are remembered; a descriptor has a few hundred bytes.
_REMEMBERED = 256


class Connections(Protocol):
    """A pool."""

    async def take(self, deadline: Deadline) -> Connection:
        """A connection for the caller alone."""

    def give(self, connection: Connection) -> None:
        """Back, for the next one."""

    async def close(self) -> None:
        """Close all."""


class OwnTransport:
    """HTTP/1.1 to one address over the connections of a pool, blocking or not as the pool is.

    ``common`` are the headers that go with every request.
    """

    is_in_process = False

    def __init__(self, address: Address, common: Headers, pool: Connections) -> None:
        self._beginning = _beginnings(
            address.prefix.encode(), _lines([(b"Host", address.host_header.encode()), *common])
        )
        self._pool = pool

    async def send(self, request: Request, deadline: Deadline) -> OwnReply:
        """Send a request, and receive the head of its answer."""
        beginning = self._beginning(request.method, request.path, request.lasting)
        head = b"%s%s\r\n" % (beginning, _lines(request.own))
        connection = await self._pool.take(deadline)
        try:
            answer = await connection.exchange(head, request.body, deadline)
        except BaseException:
            connection.close()
            self._pool.give(connection)
            raise
        return OwnReply(answer.status, answer.fields, connection, self._pool)

    async def close(self) -> None:
        """Close every connection; one in use, when its answer is closed."""
        await self._pool.close()


class OwnReply:
    """An answer, and the connection it comes on."""

    __slots__ = ("_connection", "_pool", "fields", "status")

    def __init__(
        self, status: int, fields: Mapping[str, str], connection: Connection, pool: Connections
    ) -> None:
        self.status = status
        self.fields = fields
        self._connection = connection
        self._pool = pool

    def pour(self, intake: Intake[Any], deadline: Deadline) -> Awaitable[None]:
        """Receive the body to where the intake wants it."""
        return self._connection.pour(intake)

    async def close(self) -> None:
        """Give the connection back: open if the answer was read to its end, else closed."""
        if not self._connection.can_follow:
            self._connection.close()
        self._pool.give(self._connection)


def _beginnings(
    prefix: bytes, common: bytes
) -> Callable[[str, str, tuple[tuple[bytes, bytes], ...]], bytes]:
    """Makes the beginnings of one client's requests, and remembers them; none outlives it."""

    @lru_cache(maxsize=_REMEMBERED)
    def beginning(method: str, path: str, lasting: tuple[tuple[bytes, bytes], ...]) -> bytes:
        start = b"%s %s%s HTTP/1.1\r\n" % (method.encode(), prefix, path.encode())
        return b"".join((start, common, _lines(lasting)))

    return beginning


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % field for field in headers])
