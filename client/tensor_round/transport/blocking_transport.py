"""The synchronous client's own transport under httpx2's API.

httpx2's transport hands out bodies in pieces of 64 KiB that were each copied three
times; at 64 MiB that takes longer than everything else in a call together. This one
sends from memory and receives into it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpx2

from ..deadline import Deadline
from .address import Address
from .blocking_wire import open_wire
from .connection import Connection
from .links import run
from .pools import Pool
from .requests import Payload, head_of

_PIECE_BYTES = 64 << 10


class BlockingTransport(httpx2.BaseTransport):
    """Serves one address over at most ``connections`` connections; thread-safe.

    A request must carry a :class:`Payload` and, as extension ``"deadline"``, a
    :class:`Deadline`. The stream of an answer has ``readinto``. Raises this package's
    errors in place of httpx2's.
    """

    def __init__(self, address: Address, *, tls: ssl.SSLContext | None, connections: int) -> None:
        self._pool = Pool(lambda: Connection(address, tls, open_wire), connections)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and read the head of its answer."""
        assert isinstance(request.stream, Payload)
        deadline: Deadline = request.extensions["deadline"]
        connection = self._pool.take(deadline)
        try:
            head, body = head_of(request), request.stream.memory
            answer = run(connection.exchange(head, body, deadline))
        except BaseException:
            connection.close()
            self._pool.give(connection)
            raise
        stream = AnswerStream(connection, self._pool)
        return httpx2.Response(answer.status, headers=answer.headers, stream=stream)

    def close(self) -> None:
        """Close every connection; one in use, when its answer is closed."""
        self._pool.close()


class AnswerStream(httpx2.SyncByteStream):
    """The body of an answer, to be read into memory or in pieces."""

    def __init__(self, connection: Connection, pool: Pool[Connection]) -> None:
        self._connection = connection
        self._pool: Pool[Connection] | None = pool

    def readinto(self, memory: memoryview) -> int:
        """Receive what has come, at least a byte; 0 at the end."""
        return run(self._connection.read_into(memory))

    def __iter__(self) -> Iterator[bytes]:
        memory = memoryview(bytearray(_PIECE_BYTES))
        while count := self.readinto(memory):
            yield bytes(memory[:count])

    def close(self) -> None:
        """Give the connection back: open if the answer was read to its end, else closed."""
        pool, self._pool = self._pool, None
        if pool is not None:
            if not self._connection.can_follow:
                self._connection.close()
            pool.give(self._connection)
