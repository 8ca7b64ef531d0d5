"""What both links share of httpx2: requests made from ours, exceptions made into ours."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from ..deadline import Deadline
from ..errors import ConnectionFailed, DeadlineExceeded, InvalidArgument, ProtocolViolation
from ..exchange import Headers, Request
from .address import Address

#: What transports that send piece by piece get: large enough that pieces cost nothing.
_PIECE_BYTES = 1 << 20


class Payload(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A request's body: memory, for a transport that can use it, or pieces of it."""

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self.memory), _PIECE_BYTES):
            yield bytes(self.memory[start : start + _PIECE_BYTES])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Requests:
    """Makes httpx2's requests: what all requests of a client share is put in here."""

    def __init__(self, address: Address, headers: Headers) -> None:
        self._address = address
        self._headers = [(b"Host", address.host_header.encode()), *headers]
        self._urls: dict[str, httpx2.URL] = {}

    def make(self, request: Request, deadline: Deadline) -> httpx2.Request:
        """The request, with the time that is left."""
        left = deadline.remaining()
        timeout = {"connect": left, "read": left, "write": left, "pool": left}
        return httpx2.Request(
            request.method,
            self._url(request.path),
            headers=self._headers + request.headers,
            stream=Payload(request.body),
            extensions={"timeout": timeout, "deadline": deadline},
        )

    def _url(self, path: str) -> httpx2.URL:
        if path not in self._urls:
            self._urls[path] = httpx2.URL(self._address.origin + self._address.prefix + path)
        return self._urls[path]


def head_of(request: httpx2.Request) -> bytes:
    """A request's head, as HTTP/1.1 writes it."""
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s\r\n" % field for field in request.headers.raw]
    return b"".join((*lines, b"\r\n"))


@contextlib.contextmanager
def translated(deadline: Deadline) -> Iterator[None]:
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
