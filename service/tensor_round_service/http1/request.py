"""The interface of a request for routes; each server implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .head import RequestHead

#: Called while a target is being filled, with the number of its bytes that are not filled yet.
Progress = Callable[[int], None]


class ClientDisconnected(Exception):
    """The client disconnected before its body was complete; no response can be sent."""


class ByteSource(Protocol):
    """A stream of bytes that can be read once."""

    @property
    def is_at_end(self) -> bool:
        """Whether the stream is known to have no more bytes."""

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the next bytes; return their count, less only at the end.

        ``progress`` may be called between reads; it may change the bytes filled so far.
        """


class Request(ByteSource, Protocol):
    """One request: its head, and its body as a stream.

    :meth:`receive_into` raises :class:`ClientDisconnected`, and
    :class:`~tensor_round.contract.errors.ReceiveTimeout` for a body below the minimum rate.
    """

    @property
    def head(self) -> RequestHead:
        """The request line and the fields."""

    @property
    def received(self) -> int:
        """Bytes of its body that have come so far, framing included."""

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address and port; None on a Unix socket."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""

    def is_gone(self) -> bool:
        """Whether the client has closed the connection, so that nobody reads the response.

        Called again and again while a route works.
        """
