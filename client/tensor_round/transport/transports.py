"""The one seam between what a client does and how bytes travel."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from ..messages.reader import Intake
from ..messages.request import Request
from .deadline import Deadline


class Reply(Protocol):
    """An answer whose head has come; to be closed by whoever got it."""

    @property
    def status(self) -> int:
        """HTTP's status code."""

    @property
    def fields(self) -> Mapping[str, str]:
        """Its headers by name in lower case; several of one name are one list."""

    def pour(self, intake: Intake[Any], deadline: Deadline) -> Awaitable[None]:
        """Receive the body into an intake, to its end."""

    async def close(self) -> None:
        """Done with it, read or not."""


class Transport(Protocol):
    """Sends requests to one service.

    Raises :class:`ConnectionFailed`, :class:`DeadlineExceeded`, :class:`ProtocolViolation`
    and :class:`InvalidArgument`, in process :class:`RequestRefused` too, and nothing else.
    """

    #: Whether there is no way on which an answer could be cut within an element, or garbled.
    is_in_process: bool

    async def send(self, request: Request, deadline: Deadline) -> Reply:
        """Send a request, and receive the head of its answer."""

    async def close(self) -> None:
        """Close every connection."""
