"""A request as routes see it, whatever server it comes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .head import RequestHead

#: Called with how many bytes of the memory that is being filled are still to come.
Progress = Callable[[int], None]


class ClientDisconnected(Exception):
    """The client is gone before its body was whole; nobody is left to respond to."""


class ByteSource(Protocol):
    """Bytes that come in order, once."""

    @property
    def is_at_end(self) -> bool:
        """Whether it is known that none are left."""

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the next bytes; fewer only at their end. How many they were.

        ``progress`` may be called between reads; it may change the bytes that have come.
        """


class Request(ByteSource, Protocol):
    """One request: its head, and the bytes of its body.

    :meth:`receive_into` raises :class:`ClientDisconnected`, and the
    :class:`~tensor_round.errors.RequestRefused` for a body that comes too slowly.
    """

    @property
    def head(self) -> RequestHead:
        """Its line and fields."""

    @property
    def received(self) -> int:
        """Bytes of its body that have come so far, framing included."""

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address, where it has one."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
