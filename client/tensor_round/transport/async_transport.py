"""The asynchronous client's own transport under httpx2's API; the sibling of the blocking one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import httpx2

from ..deadline import Deadline
from .address import Address
from .async_wire import open_wire
from .connection import Connection
from .pools import AsyncPool
from .requests import Payload, head_of

_PIECE_BYTES = 64 << 10


class AsyncTransport(httpx2.AsyncBaseTransport):
    """Serves one address over at most ``connections`` connections, for one asyncio event loop.

    Requests, answers and errors are those of :class:`BlockingTransport`; the stream of an
    answer has ``areadinto``.
    """

    def __init__(self, address: Address, *, tls: ssl.SSLContext | None, connections: int) -> None:
        self._pool = AsyncPool(lambda: Connection(address, tls, open_wire), connections)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and read the head of its answer."""
        assert isinstance(request.stream, Payload)
        deadline: Deadline = request.extensions["deadline"]
        connection = await self._pool.take()
        try:
            head, body = head_of(request), request.stream.memory
            answer = await connection.exchange(head, body, deadline)
        except BaseException:
            connection.close()
            self._pool.give(connection)
            raise
        stream = AsyncAnswerStream(connection, self._pool)
        return httpx2.Response(answer.status, headers=answer.headers, stream=stream)

    async def aclose(self) -> None:
        """Close every connection; one in use, when its answer is closed."""
        self._pool.close()
        # The loop closes sockets in its next turn, and this may be its last.
        await asyncio.sleep(0)


class AsyncAnswerStream(httpx2.AsyncByteStream):
    """The body of an answer, to be read into memory or in pieces."""

    def __init__(self, connection: Connection, pool: AsyncPool[Connection]) -> None:
        self._connection = connection
        self._pool: AsyncPool[Connection] | None = pool

    async def areadinto(self, memory: memoryview) -> int:
        """Receive what has come, at least a byte; 0 at the end."""
        return await self._connection.read_into(memory)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        memory = memoryview(bytearray(_PIECE_BYTES))
        while count := await self.areadinto(memory):
            yield bytes(memory[:count])

    async def aclose(self) -> None:
        """Give the connection back: open if the answer was read to its end, else closed."""
        pool, self._pool = self._pool, None
        if pool is not None:
            if not self._connection.can_follow:
                self._connection.close()
            pool.give(self._connection)
