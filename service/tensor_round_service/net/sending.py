"""Writing to a transport: large bodies without a copy, at a minimum rate.

The high-water mark of the transport is 0, so writing is paused while any byte is in the write
buffer. The memory of a response may serve another request only when the write buffer is empty.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Sequence
from typing import Any

from .bodies import Parts
from .limits import MinimumRate

if sys.platform == "linux":
    import fcntl
    import termios

#: Bytes of a body that are encrypted at a time.
TLS_PIECE_BYTES = 64 << 10


class Writer:
    """Writes to one transport, and measures the rate at which the peer reads."""

    __slots__ = (
        "_checked",
        "_drained",
        "_pending",
        "_rate",
        "_transport",
        "is_encrypted",
        "is_lost",
        "is_paused",
    )

    _rate: MinimumRate
    #: The value of ``unread`` at the last check of the rate, or of ``unsent`` at its start.
    _checked: int

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        #: Whether the connection has TLS.
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        #: Whether the write buffer is not empty.
        self.is_paused = False
        #: Whether the connection is closed.
        self.is_lost = False
        self._drained: asyncio.Future[None] | None = None
        #: Bytes of a response that are not passed to the transport yet.
        self._pending = 0

    def open(self) -> None:
        """Have the transport pause writing as soon as a byte is in its write buffer."""
        # With a high-water mark of 0, TLS transports never resume writing.
        self._transport.set_write_buffer_limits(high=1 if self.is_encrypted else 0, low=0)

    @property
    def unsent(self) -> int:
        """Bytes that are not passed to the kernel yet."""
        return self._pending + int(self._transport.get_write_buffer_size())

    @property
    def unread(self) -> int:
        """Bytes that the peer's system has not received yet; 0 if the kernel has taken all.

        The kernel takes megabytes at once, and then nothing until a third of them is sent: a slow
        reader would seem to read nothing for most of a minute.
        """
        unsent = self.unsent
        if not unsent:  # the transport may be closed already
            return 0
        return unsent + _held_by_kernel(self._transport.get_extra_info("socket"))

    @property
    def is_writable(self) -> bool:
        """Whether the socket is writable, so that no layer above it holds data."""
        waiting = select.poll()
        waiting.register(self._transport.get_extra_info("socket").fileno(), select.POLLOUT)
        return bool(waiting.poll(0))

    def pause(self) -> None:
        """Note that the write buffer is not empty."""
        self.is_paused = True

    def resume(self) -> None:
        """Note that the write buffer is empty."""
        self.is_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def connection_lost(self) -> None:
        """End all waiting: nothing can be sent any more."""
        self.is_lost = True
        self.resume()
        self._transport = None

    async def drain(self) -> None:
        """Wait until the write buffer is empty."""
        while self.is_paused:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def write(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Pass the parts to the transport, by one system call if that needs no copy.

        Each system call may wake the peer. ``writelines`` of asyncio's own transports joins the
        parts up to Python 3.11, and does not pause writing before 3.12.9 and 3.13.2
        (CVE-2024-12254).
        """
        if isinstance(self._transport, asyncio.WriteTransport):
            for part in parts:
                self._transport.write(part)
        else:
            self._transport.writelines(parts)

    async def write_parts(self, parts: Parts) -> None:
        """Write the parts; on return the transport has no more use for their memory."""
        if self.is_encrypted:
            await self._encrypt(parts)
        else:
            self.write(parts)
            await self.drain()

    async def _encrypt(self, parts: Parts) -> None:
        """Write piece by piece, because TLS encrypts all data at once that it is given.

        The encrypted data waits in the buffer of an inner transport that is not accessible. So
        the next piece follows only when the write buffer is empty.
        """
        self._pending = sum(map(len, parts))
        try:
            for part in parts:
                for begin in range(0, len(part), TLS_PIECE_BYTES):
                    piece = part[begin : begin + TLS_PIECE_BYTES]
                    self._pending -= len(piece)
                    self._transport.write(piece)
                    await self.drain()
                    if self.is_lost:
                        return
        finally:
            self._pending = 0

    def start_rate(self, rate: int, grace: float) -> None:
        """Enforce a minimum rate from now on, after ``grace`` seconds."""
        self._rate = MinimumRate(rate, grace)
        self._checked = self.unsent

    def holds_rate(self, seconds: float) -> bool:
        """Check the minimum rate since the last check or its start, ``seconds`` ago."""
        before, self._checked = self._checked, self.unread
        if not self._checked:
            return True
        return self._rate.record(max(0, before - self._checked), seconds)


def _held_by_kernel(sock: Any) -> int:
    """Bytes of a socket that the kernel has taken, and the peer has not acknowledged.

    A closed transport has no socket, or one without a descriptor.
    """
    if sys.platform != "linux" or sock is None or sock.fileno() == -1:
        return 0
    held = bytearray(4)
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, held)  # SIOCOUTQ, see tcp(7)
    return int.from_bytes(held, sys.byteorder)
