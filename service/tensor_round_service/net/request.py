"""The interface of a request for routes; each server implements it."""

from __future__ import annotations

from typing import Protocol

from .bodies import ByteSource
from .head import Head


class Request(ByteSource, Protocol):
    """One request: its head, and its body as a stream.

    :meth:`receive_into` raises :class:`~..net.bodies.ClientDisconnected`, and
    :class:`~tensor_round.contract.errors.ReceiveTimeout` for a body below the minimum rate.
    """

    #: When its head had come, on the clock of time.perf_counter.
    began: float
    #: The label of the API key that it was let in with; empty without one.
    key: str

    @property
    def head(self) -> Head:
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
        """Whether the client has closed the connection, and cannot read the response.

        Called again and again while a route works.
        """
