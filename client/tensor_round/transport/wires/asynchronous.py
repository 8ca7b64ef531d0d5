"""A wire in an asyncio event loop: what comes is received where the reader wants it.

The call's deadline is kept by whoever awaits: these waits can be cancelled.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from ..address import Address
from ..deadline import Deadline
from ..look_up import look_up
from . import together

#: Written at a time; asyncio before 3.12 copies what it cannot send at once.
_PIECE_BYTES = 256 << 10
#: Each piece is a system call and a packet: up to this size a copy costs less.
_ONE_PIECE_BYTES = 128 << 10
#: For what comes while nobody waits for it.
_SPARE_BYTES = 64 << 10


async def open_wire(address: Address, tls: ssl.SSLContext | None, deadline: Deadline) -> AsyncWire:
    """Connect to the first of the host's addresses that takes us."""
    loop = asyncio.get_running_loop()
    if address.uds is not None:
        _, wire = await loop.create_unix_connection(AsyncWire, address.uds)
        return wire
    name = address.host if tls is not None else None
    failure = OSError("the host has no address")
    # Not by the loop: it would wait for the look-up when it is closed.
    for _, (host, port, *_) in await asyncio.wrap_future(look_up(address)):
        try:
            _, wire = await loop.create_connection(
                AsyncWire, host, port, ssl=tls, server_hostname=name
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            failure = error
            continue
        return wire
    raise failure


class AsyncWire(asyncio.BufferedProtocol):
    """The protocol of one connection, and the wire on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        self._error: Exception | None = None
        # What came unasked for, and how much of it.
        self._spare = memoryview(bytearray(_SPARE_BYTES))
        self._kept = 0
        # Where the reader wants what comes, and how much has come there.
        self._wanted: memoryview | None = None
        self._came = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_full = False

    def is_silent(self) -> bool:
        """Whether nothing has come since the reader last waited, and nothing is broken."""
        assert self._transport is not None
        return not (self._kept or self._is_over or self._transport.is_closing())

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts until something comes back; whether all was sent by then."""
        assert self._transport is not None
        for part in together(parts, _ONE_PIECE_BYTES):
            for start in range(0, len(part), _PIECE_BYTES):
                if not self.is_silent():
                    return False
                self._transport.write(part[start : start + _PIECE_BYTES])
                if self._is_full:
                    self._writer = asyncio.get_running_loop().create_future()
                    await self._writer
        return True

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least a byte; 0 at the end of the stream."""
        assert self._transport is not None
        if self._kept:
            return self._take_kept(memory)
        if not self._is_over:
            self._wanted, self._came = memory, 0
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._wanted, self._reader = None, None
            if self._came:
                return self._came
        if self._error is not None:
            raise self._error
        return 0

    def close(self) -> None:
        """Hang up at once: nothing that is still to be sent would be listened to."""
        if self._transport is not None:
            self._transport.abort()

    def _take_kept(self, memory: memoryview) -> int:
        assert self._transport is not None
        count = min(len(memory), self._kept)
        memory[:count] = self._spare[:count]
        rest = bytes(self._spare[count : self._kept])
        self._spare[: len(rest)] = rest
        if self._kept == len(self._spare) and not self._is_over:
            self._transport.resume_reading()
        self._kept = len(rest)
        return count

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # A stream's, by every loop's interface; uvloop's does not inherit to say so.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the reader wants it; else aside."""
        if self._wanted is not None and self._came < len(self._wanted):
            return self._wanted[self._came :]
        return self._spare[self._kept :]

    def buffer_updated(self, nbytes: int) -> None:
        """Wake the reader, or keep what it has not asked for."""
        if self._wanted is not None and self._came < len(self._wanted):
            self._came += nbytes
            _wake(self._reader)
            return
        self._kept += nbytes
        if self._kept == len(self._spare):
            assert self._transport is not None
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """The service has said all; there is nothing more to say to it either."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; an error if it was still needed."""
        self._end(exc)

    def pause_writing(self) -> None:
        """The writer has to wait."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The writer may go on."""
        self._is_full = False
        _wake(self._writer)

    def _end(self, error: Exception | None) -> None:
        self._is_over = True
        self._error = self._error or error
        _wake(self._reader)
        _wake(self._writer)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
