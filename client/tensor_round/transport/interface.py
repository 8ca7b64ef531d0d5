"""The interface between a session and its transport."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from ..contract.errors import TensorRoundError
from ..messages.request import Request
from ..messages.response_readers import ResponseReader
from .deadline import Deadline


class Response(Protocol):
    """A response whose head was received; its receiver must close it."""

    @property
    def status(self) -> int:
        """The HTTP status code."""

    @property
    def fields(self) -> Mapping[str, str]:
        """Its headers by lower-case name; several of one name are joined by commas."""

    def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> Awaitable[None]:
        """Receive the whole body into a reader."""

    async def close(self) -> None:
        """Release the response, read or not."""


class Transport(Protocol):
    """Sends requests to one service, or to several of which one is as good as another.

    Its methods raise :class:`ConnectionFailed`, :class:`DeadlineExceeded`,
    :class:`ProtocolViolation` and :class:`InvalidArgument`; in process also
    :class:`RequestRefused`.
    """

    #: Whether responses come from this process, so that none can be cut off or garbled.
    is_in_process: bool = False

    @property
    def addresses(self) -> int:
        """The number of services; 0 if it is not known yet."""
        return 1

    async def send(self, request: Request, deadline: Deadline) -> Response:
        """Send a request, and receive the head of its response."""

    def record_failure(self, response: Response, error: TensorRoundError) -> str | None:
        """Record the error that a response ended in; its service's URL, if there are several."""
        return None

    async def close(self) -> None:
        """Close every connection."""
