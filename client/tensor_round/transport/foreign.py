"""Transports of httpx2's in place of the client's own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from ..errors import ConnectionFailed, DeadlineExceeded, InvalidArgument, ProtocolViolation
from ..messages.reader import Intake, feed
from ..messages.request import Headers, Request
from ..wire.http1 import fields
from .address import Address
from .deadline import Deadline

#: Bytes of a request's body at a time; large enough that pieces cost nothing.
_PIECE_BYTES = 1 << 20


class Payload(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A request's body."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._memory), _PIECE_BYTES):
            yield bytes(self._memory[start : start + _PIECE_BYTES])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Requests:
    """Makes httpx2's requests; ``common`` are the headers that go with each."""

    def __init__(self, address: Address, common: Headers) -> None:
        self._address = address
        self._common = [(b"Host", address.host_header.encode()), *common]

    def make(self, request: Request, deadline: Deadline) -> httpx2.Request:
        """The request, with the time that is left for each of its steps."""
        left = deadline.remaining()
        return httpx2.Request(
            request.method,
            self._address.origin + self._address.prefix + request.path,
            headers=self._common + request.headers,
            stream=Payload(request.body),
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), left)},
        )


class ForeignTransport:
    """An ``httpx2.BaseTransport``."""

    is_in_process = False

    def __init__(self, transport: httpx2.BaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def send(self, request: Request, deadline: Deadline) -> ForeignReply:
        """Send a request, and receive the head of its answer."""
        with _translated(deadline):
            made = self._requests.make(request, deadline)
            return ForeignReply(self._transport.handle_request(made))

    async def close(self) -> None:
        """Close it: it belongs to the client."""
        with _translated(Deadline(None)):
            self._transport.close()


class ForeignReply:
    """A response of a blocking transport's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.fields = fields(response.headers.raw)

    async def pour(self, intake: Intake[Any], deadline: Deadline) -> None:
        """Copy the body's pieces into the intake."""
        assert isinstance(self._response.stream, httpx2.SyncByteStream)
        with _translated(deadline):
            for piece in self._response.stream:
                deadline.remaining()
                feed(intake, piece)

    async def close(self) -> None:
        """Close the response."""
        with _translated(Deadline(None)):
            self._response.close()


class AsyncForeignTransport:
    """An ``httpx2.AsyncBaseTransport``."""

    is_in_process = False

    def __init__(self, transport: httpx2.AsyncBaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def send(self, request: Request, deadline: Deadline) -> AsyncForeignReply:
        """Send a request, and receive the head of its answer."""
        with _translated(deadline):
            made = self._requests.make(request, deadline)
            return AsyncForeignReply(await self._transport.handle_async_request(made))

    async def close(self) -> None:
        """Close it: it belongs to the client."""
        with _translated(Deadline(None)):
            await self._transport.aclose()


class AsyncForeignReply:
    """A response of an asynchronous transport's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.fields = fields(response.headers.raw)

    async def pour(self, intake: Intake[Any], deadline: Deadline) -> None:
        """Copy the body's pieces into the intake."""
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)
        with _translated(deadline):
            async for piece in self._response.stream:
                feed(intake, piece)

    async def close(self) -> None:
        """Close the response."""
        with _translated(Deadline(None)):
            await self._response.aclose()


@contextlib.contextmanager
def _translated(deadline: Deadline) -> Iterator[None]:
    """Let no exception of httpx2's or the system's out: each has its like in this package."""
    try:
        yield
    except (httpx2.TimeoutException, TimeoutError) as error:
        deadline.remaining()
        raise DeadlineExceeded(f"the transport waited too long: {error}") from error
    except httpx2.RemoteProtocolError as error:
        # One class for both; only the text tells a hang-up from a garbled answer.
        if "disconnected" in str(error) or "closed connection" in str(error):
            raise ConnectionFailed(f"the service hung up: {error}") from error
        raise ProtocolViolation(f"the answer is not HTTP: {error}") from error
    except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        raise InvalidArgument(f"the request cannot be made: {error}") from error
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise ConnectionFailed(f"the connection failed: {error}") from error
