"""Adapters for httpx2's transports, which a caller may use in place of the client's own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from ..contract.errors import ConnectionFailed, DeadlineExceeded, InvalidArgument, ProtocolViolation
from ..contract.wire.http1 import fields
from .address import Address
from .concurrency import Deadline
from .exchange import Headers, Request, ResponseReader, copy_into
from .http import Transport

#: Pieces of a request's body, in bytes; so large that the cost of each is negligible.
_PIECE_BYTES = 1 << 20


class Payload(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A request's body as httpx2's stream of pieces."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._memory), _PIECE_BYTES):
            yield bytes(self._memory[start : start + _PIECE_BYTES])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Requests:
    """Makes httpx2's requests; ``common`` are the headers of each."""

    def __init__(self, address: Address, common: Headers) -> None:
        self._address = address
        self._common = [(b"Host", address.host_header.encode()), *common]

    def make(self, request: Request, deadline: Deadline) -> httpx2.Request:
        """The request; each of its steps may take the time that is left."""
        left = deadline.remaining()
        return httpx2.Request(
            request.method,
            self._address.origin + self._address.prefix + request.path,
            headers=self._common + request.headers,
            stream=Payload(request.body),
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), left)},
        )


class Httpx2Transport(Transport):
    """Sends requests by an ``httpx2.BaseTransport``."""

    def __init__(self, transport: httpx2.BaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def send(self, request: Request, deadline: Deadline) -> Httpx2Response:
        """Send a request, and receive the head of its response."""
        with _translated_errors(deadline):
            made = self._requests.make(request, deadline)
            return Httpx2Response(self._transport.handle_request(made))

    async def close(self) -> None:
        """Close the transport, which the client owns."""
        with _translated_errors(Deadline(None)):
            self._transport.close()


class Httpx2Response:
    """A response of a blocking httpx2 transport."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.fields = fields(response.headers.raw)

    async def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Copy the body's pieces into the reader."""
        assert isinstance(self._response.stream, httpx2.SyncByteStream)
        with _translated_errors(deadline):
            for piece in self._response.stream:
                deadline.remaining()
                copy_into(reader, piece)

    async def close(self) -> None:
        """Close the response."""
        with _translated_errors(Deadline(None)):
            self._response.close()


class AsyncHttpx2Transport(Transport):
    """Sends requests by an ``httpx2.AsyncBaseTransport``."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def send(self, request: Request, deadline: Deadline) -> AsyncHttpx2Response:
        """Send a request, and receive the head of its response."""
        with _translated_errors(deadline):
            made = self._requests.make(request, deadline)
            return AsyncHttpx2Response(await self._transport.handle_async_request(made))

    async def close(self) -> None:
        """Close the transport, which the client owns."""
        with _translated_errors(Deadline(None)):
            await self._transport.aclose()


class AsyncHttpx2Response:
    """A response of an asynchronous httpx2 transport."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.fields = fields(response.headers.raw)

    async def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Copy the body's pieces into the reader."""
        assert isinstance(self._response.stream, httpx2.AsyncByteStream)
        with _translated_errors(deadline):
            async for piece in self._response.stream:
                copy_into(reader, piece)

    async def close(self) -> None:
        """Close the response."""
        with _translated_errors(Deadline(None)):
            await self._response.aclose()


@contextlib.contextmanager
def _translated_errors(deadline: Deadline) -> Iterator[None]:
    """Raise this package's errors in place of httpx2's and the system's."""
    try:
        yield
    except (httpx2.TimeoutException, TimeoutError) as error:
        deadline.remaining()
        raise DeadlineExceeded(f"the transport waited too long: {error}") from error
    except httpx2.RemoteProtocolError as error:
        # httpx2 has one class for a closed connection and a malformed response.
        if "disconnected" in str(error) or "closed connection" in str(error):
            raise ConnectionFailed(f"the service closed the connection: {error}") from error
        raise ProtocolViolation(f"the response is not HTTP: {error}") from error
    except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        raise InvalidArgument(f"the request cannot be made: {error}") from error
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise ConnectionFailed(f"the connection failed: {error}") from error
