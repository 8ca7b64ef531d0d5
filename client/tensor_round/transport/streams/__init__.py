"""Byte streams: the interface between HTTP and a socket."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

from ...contract.errors import ConnectionFailed
from ..address import Address
from ..concurrency import Concurrency, within
from ..deadline import Deadline


class Stream(Protocol):
    """A connected stream to a service. Its methods raise OSError when the connection breaks."""

    def is_idle(self) -> bool:
        """Whether the stream is open and no received bytes are waiting."""

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts; stop when bytes are received. Returns whether everything was sent."""

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least one byte; the number of bytes, 0 at the end of the stream."""

    def close(self) -> None:
        """Close the connection."""


#: Connects to an address, with TLS if a context is given; raises OSError, or ValueError for an
#: invalid host name.
Opener = Callable[[Address, ssl.SSLContext | None, Deadline], Awaitable[Stream]]
#: The most seconds of a :func:`bounded` opener: a host that drops packets refuses nothing.
CONNECT_SECONDS = 2.0


def bounded(opener: Opener, concurrency: Concurrency) -> Opener:
    """The opener, which raises OSError after :data:`CONNECT_SECONDS`."""

    async def open_stream(
        address: Address, tls: ssl.SSLContext | None, deadline: Deadline
    ) -> Stream:
        async def connect(part: Deadline) -> Stream:
            return await opener(address, tls, part)

        try:
            return await within(CONNECT_SECONDS, deadline, concurrency, connect)
        except ConnectionFailed as error:
            raise OSError(error.detail) from error

    return open_stream


def coalesce(parts: list[memoryview], limit: int) -> list[memoryview]:
    """The parts, copied into one if they have at most ``limit`` bytes together."""
    if sum(map(len, parts)) <= limit:
        return [memoryview(b"".join(parts))]
    return parts
