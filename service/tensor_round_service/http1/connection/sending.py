"""Writing to a transport: without a copy where bodies are large, and how fast it is taken.

A transport pauses its protocol here as soon as a byte waits, and lets it go on when none
does: only then may the memory that the byte lay in be another request's.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any

from ..response import Parts
from .rates import MinimumRate

#: What of a body TLS gets to encrypt at a time.
TLS_PIECE_BYTES = 64 << 10


class Writer:
    """Writes to one connection's transport, and measures what its peer takes."""

    __slots__ = (
        *("_ahead", "_drained", "_left", "_rate", "_transport"),
        *("is_encrypted", "is_lost", "is_paused"),
    )

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        #: Whether TLS lies between the transport and the socket.
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        #: Whether bytes wait to be sent.
        self.is_paused = False
        #: Whether the connection has ended.
        self.is_lost = False
        self._drained: asyncio.Future[None] | None = None
        #: Bytes of a response that the transport has not been given yet.
        self._ahead = 0
        self._left = 0
        self._rate: MinimumRate | None = None

    def open(self) -> None:
        """Be paused by the transport as soon as a byte waits."""
        # With a limit of 0 TLS would wait for ever to be emptier than empty.
        self._transport.set_write_buffer_limits(high=1 if self.is_encrypted else 0, low=0)

    @property
    def left(self) -> int:
        """Bytes that the kernel has not been given yet."""
        return self._ahead + int(self._transport.get_write_buffer_size())

    @property
    def is_writable(self) -> bool:
        """Whether the kernel would take more, so that nothing waits for it above."""
        waiting = select.poll()
        waiting.register(self._transport.get_extra_info("socket").fileno(), select.POLLOUT)
        return bool(waiting.poll(0))

    def pause(self) -> None:
        """Bytes wait in the transport."""
        self.is_paused = True

    def resume(self) -> None:
        """None wait any more."""
        self.is_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def lose(self) -> None:
        """The connection has ended: nothing goes out any more."""
        self.is_lost = True
        self.resume()
        self._transport = None

    async def drain(self) -> None:
        """Wait until no byte waits in the transport."""
        while self.is_paused:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None

    async def write_parts(self, parts: Parts) -> None:
        """Write; on return no byte waits in the parts' memory."""
        if self.is_encrypted:
            await self._encrypt(parts)
        else:
            _write_together(self._transport, parts)
            await self.drain()

    async def _encrypt(self, parts: Parts) -> None:
        """Write a little at a time, as TLS encrypts at once all that it is given.

        What it has encrypted goes to a transport of its own, whose buffer nobody can look
        into: so it gets the next piece only when the last has gone on from there.
        """
        self._ahead = sum(map(len, parts))
        try:
            for part in parts:
                for begin in range(0, len(part), TLS_PIECE_BYTES):
                    piece = part[begin : begin + TLS_PIECE_BYTES]
                    self._ahead -= len(piece)
                    self._transport.write(piece)
                    await self.drain()
                    if self.is_lost:
                        return
        finally:
            self._ahead = 0

    def start_rate(self, rate: int, grace: float) -> None:
        """Hold the peer to a minimum rate from now on, after ``grace`` seconds."""
        self._rate = MinimumRate(rate, grace)
        self._left = self.left

    def is_taken(self, seconds: float) -> bool:
        """Whether the peer held the rate since the last call or the start, ``seconds`` ago."""
        before, self._left = self._left, self.left
        if self._rate is None or not self._left:
            return True
        return self._rate.moved(max(0, before - self._left), seconds)


def _write_together(transport: Any, parts: Parts) -> None:
    """Write with one system call where that takes no copy: each may wake who reads."""
    if type(transport).writelines is asyncio.WriteTransport.writelines:  # it joins them
        for part in parts:
            transport.write(part)
    else:
        transport.writelines(parts)
