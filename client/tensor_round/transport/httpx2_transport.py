"""Adapters for httpx2's transports, which a caller may use in place of the client's own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from ..contract.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    InvalidArgument,
    InvalidArgumentType,
    ProtocolViolation,
)
from ..contract.wire.http1 import fields
from .address import Address
from .exchange import Deadline, Headers, Request, ResponseReader, copy_into

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


class Httpx2Transport:
    """Sends requests by a transport of httpx2, which ``is_async`` or blocks.

    ``common`` are the headers of every request.
    """

    is_in_process = False

    def __init__(
        self,
        # Of the client's kind, whose signature says so: a class may be both.
        transport: Any,
        address: Address,
        common: Headers,
        *,
        is_async: bool,
    ) -> None:
        if not hasattr(transport, "handle_async_request" if is_async else "handle_request"):
            kind = "httpx2.AsyncBaseTransport" if is_async else "httpx2.BaseTransport"
            got = type(transport).__name__
            raise InvalidArgumentType(f"transport must be an {kind}, got {got}")
        self._transport = transport
        self._url = address.origin + address.prefix
        self._common = [(b"Host", address.host_header.encode()), *common]
        self._is_async = is_async

    async def send(self, request: Request, deadline: Deadline) -> Httpx2Response:
        """Send a request, and receive the head of its response."""
        with _translated_errors(deadline):
            # Each of its steps may take the time that is left.
            limits = ("connect", "read", "write", "pool")
            made = httpx2.Request(
                request.method,
                self._url + request.path,
                headers=self._common + request.headers,
                stream=Payload(request.body),
                extensions={"timeout": dict.fromkeys(limits, deadline.remaining())},
            )
            if self._is_async:
                response = await self._transport.handle_async_request(made)
            else:
                response = self._transport.handle_request(made)
            return Httpx2Response(response, is_async=self._is_async)

    async def close(self) -> None:
        """Close the transport, which the client owns."""
        with _translated_errors(Deadline(None)):
            await self._transport.aclose() if self._is_async else self._transport.close()


class Httpx2Response:
    """A response of a transport of httpx2."""

    def __init__(self, response: httpx2.Response, *, is_async: bool) -> None:
        self._response = response
        self._is_async = is_async
        self.status = response.status_code
        self.fields = fields(response.headers.raw)

    async def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Copy the body's pieces into the reader."""
        stream = self._response.stream
        with _translated_errors(deadline):
            if self._is_async:
                assert isinstance(stream, httpx2.AsyncByteStream)
                async for piece in stream:
                    copy_into(reader, piece)
            else:
                assert isinstance(stream, httpx2.SyncByteStream)
                for piece in stream:
                    deadline.remaining()
                    copy_into(reader, piece)

    async def close(self) -> None:
        """Close the response."""
        with _translated_errors(Deadline(None)):
            await self._response.aclose() if self._is_async else self._response.close()


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
