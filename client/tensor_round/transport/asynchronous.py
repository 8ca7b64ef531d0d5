"""The asynchronous client's waits: tasks, pools and streams of an event loop in asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Self, TypeVar, cast

from ..contract.errors import DeadlineExceeded, InvalidArgument
from .address import Address, resolve_host
from .concurrency import Task, Work
from .exchange import Deadline
from .http import Connection, coalesce

T = TypeVar("T")


#: Bytes of one write. asyncio before 3.12 copies the part of a write that it cannot send at once.
_PIECE_BYTES = 256 << 10
#: Up to this size, one copy costs less than a second system call and packet.
_COALESCE_BYTES = 128 << 10
#: The buffer for bytes that arrive while no call receives, in bytes.
_BUFFER_BYTES = 64 << 10


class AsyncPool:
    """At most ``size`` connections, made by ``make``, for the tasks of one event loop.

    Connections belong to their loop. In another loop (a forked child's, or the next
    ``asyncio.run``) the pool is full of new ones.
    """

    def __init__(self, make: Callable[[], Connection], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def acquire(self, deadline: Deadline) -> Connection:
        """Wait for a connection for the caller alone; the caller's timeout applies."""
        self._enter()
        await self._free.acquire()
        if self._closed:
            self._free.release()
            raise InvalidArgument("the client is closed")
        return self._idle.pop()

    def release(self, connection: Connection) -> None:
        """Return a connection; the task that has waited longest gets it."""
        if self._closed:
            connection.close()
        self._idle.append(connection)
        self._free.release()

    async def close(self) -> None:
        """Close idle connections now, and the others when they are released."""
        self._enter()
        self._closed = True
        for connection in self._idle:
            connection.close()
        # The loop closes sockets in its next iteration, which may be its last.
        await asyncio.sleep(0)

    def _enter(self) -> None:
        """In another loop than before, drop the connections of that one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._idle = [self._make() for _ in range(self._size)]
            self._free = asyncio.Semaphore(self._size)


class AsyncStream(asyncio.BufferedProtocol):
    """One connection's protocol in asyncio, and its stream."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._has_ended = self._is_lost = False
        self._error: Exception | None = None
        # Bytes that arrived while no call received, and their number.
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._buffered = 0
        # The memory of the current receive_into, and the bytes received into it.
        self._target: memoryview | None = None
        self._received = 0
        self._receiver: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None
        self._is_write_paused = False

    @classmethod
    async def connect(
        cls, address: Address, tls: ssl.SSLContext | None, deadline: Deadline
    ) -> Self:
        """Connect to the first of the host's addresses that accepts the connection."""
        loop = asyncio.get_running_loop()
        if address.uds is not None:
            _, stream = await loop.create_unix_connection(cls, address.uds)
            return stream
        name = address.host if tls is not None else None
        failure = OSError("the host has no address")
        # Not loop.getaddrinfo: closing the loop would wait for its thread.
        for _, (host, port, *_) in await asyncio.wrap_future(resolve_host(address)):
            try:
                _, stream = await loop.create_connection(
                    cls, host, port, ssl=tls, server_hostname=name
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
                continue
            return stream
        raise failure

    def is_idle(self) -> bool:
        """Whether the stream is open and no received bytes are waiting."""
        assert self._transport is not None
        return not (self._buffered or self._has_ended or self._transport.is_closing())

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts; stop when bytes are received. Returns whether everything was sent."""
        assert self._transport is not None
        for part in coalesce(parts, _COALESCE_BYTES):
            for start in range(0, len(part), _PIECE_BYTES):
                if not self.is_idle():
                    return False
                self._transport.write(part[start : start + _PIECE_BYTES])
                if self._is_write_paused:
                    self._sender = asyncio.get_running_loop().create_future()
                    await self._sender
        return True

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least one byte; the number of bytes, 0 at the end of the stream."""
        assert self._transport is not None
        if self._buffered:
            return self._read_buffered(memory)
        if not self._has_ended:
            self._target, self._received = memory, 0
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._target, self._receiver = None, None
            if self._received:
                return self._received
        if self._error is not None:
            raise self._error
        return 0

    def close(self) -> None:
        """Abort the connection: the service would not read any bytes that are still unsent."""
        # asyncio's abort fails on a connection that it has closed after its last write.
        if self._transport is not None and not self._is_lost:
            self._transport.abort()

    def _read_buffered(self, memory: memoryview) -> int:
        assert self._transport is not None
        count = min(len(memory), self._buffered)
        memory[:count] = self._buffer[:count]
        rest = bytes(self._buffer[count : self._buffered])
        self._buffer[: len(rest)] = rest
        if self._buffered == len(self._buffer) and not self._has_ended:
            self._transport.resume_reading()
        self._buffered = len(rest)
        return count

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # It is a Transport in every loop; uvloop's class does not inherit from it.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The memory of the current receive_into, or else the stream's own buffer."""
        if self._target is not None and self._received < len(self._target):
            return self._target[self._received :]
        return self._buffer[self._buffered :]

    def buffer_updated(self, nbytes: int) -> None:
        """Wake the receiver, or count the bytes in the stream's own buffer."""
        if self._target is not None and self._received < len(self._target):
            self._received += nbytes
            _wake(self._receiver)
            return
        self._buffered += nbytes
        if self._buffered == len(self._buffer):
            assert self._transport is not None
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """End the stream; returning None lets asyncio close the connection."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream, with the error if there is one."""
        self._is_lost = True
        self._end(exc)

    def pause_writing(self) -> None:
        """Make the next send wait."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Let a waiting send continue."""
        self._is_write_paused = False
        _wake(self._sender)

    def _end(self, error: Exception | None) -> None:
        self._has_ended = True
        self._error = self._error or error
        _wake(self._receiver)
        _wake(self._sender)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Tasks:
    """Runs in the caller's asyncio event loop."""

    is_async = True
    pool = AsyncPool
    stream = AsyncStream

    async def within(self, deadline: Deadline, work: Task[T]) -> T:
        """The result of the work, which is cancelled at the deadline."""
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await work()
        except TimeoutError as error:
            deadline.remaining()
            raise DeadlineExceeded("the call did not finish in time") from error

    async def sleep(self, seconds: float, deadline: Deadline) -> None:
        """Wait for this many seconds."""
        await asyncio.sleep(seconds)

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of the work, done in a thread."""
        return await asyncio.to_thread(work)

    async def for_each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on the items in tasks, which end before this returns."""

        async def loop() -> None:
            for item in items:
                await work(item)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(loop())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
