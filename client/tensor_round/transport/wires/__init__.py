"""The one seam between HTTP and a socket: a connected stream of bytes."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

from ..address import Address
from ..deadline import Deadline


class Wire(Protocol):
    """An open stream to a service. Its methods raise OSError when it breaks."""

    def is_silent(self) -> bool:
        """Whether nothing has come that was not asked for, not even the stream's end."""

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts until something comes back; whether all was sent by then."""

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least a byte; 0 at the end of the stream."""

    def close(self) -> None:
        """Hang up."""


#: Connects to an address, by TLS if there is a context; raises OSError, or ValueError for a
#: host name that is none.
Opener = Callable[[Address, ssl.SSLContext | None, Deadline], Awaitable[Wire]]


def together(parts: list[memoryview], most: int) -> list[memoryview]:
    """The parts, copied into one if they have no more bytes than that."""
    if sum(map(len, parts)) <= most:
        return [memoryview(b"".join(parts))]
    return parts
