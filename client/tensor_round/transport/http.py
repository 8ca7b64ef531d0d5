"""The client's own transport: HTTP/1.1 without copies of payloads.

httpx2 copies each body three times, in pieces of 64 KiB. At 64 MiB that takes longer than the rest
of the call.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ..contract.errors import ConnectionFailed, DeadlineExceeded
from ..contract.wire import http1
from .address import Address
from .exchange import Deadline, Headers, Receive, Request, ResponseReader

if TYPE_CHECKING:
    from .concurrency import Concurrency, Connections, Stream


def coalesce(parts: list[memoryview], limit: int) -> list[memoryview]:
    """The parts, copied into one if they have at most ``limit`` bytes together."""
    if sum(map(len, parts)) <= limit:
        return [memoryview(b"".join(parts))]
    return parts


#: The buffer for heads and chunk framing, in bytes; a small body is received with its head.
_BUFFER_BYTES = 16 << 10
#: Errors of connecting while no process listens, or while it stops: ENOENT for a Unix socket,
#: EAGAIN for one with too many waiting. An end within the TLS handshake has a separate class.
_REFUSALS = ConnectionError, FileNotFoundError, BlockingIOError, ssl.SSLEOFError
#: OpenSSL's reasons, by version, when the peer does not speak TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


class Connection:
    """A connection to one address, opened on first use, and again after it was closed."""

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None, concurrency: Concurrency
    ) -> None:
        self._address = address
        self._tls = tls
        self._concurrency = concurrency
        self._stream: Stream | None = None
        self._deadline = Deadline(None)
        self._buffer = memoryview(b"")
        self._body: http1.BodyReader | None = None
        self._is_persistent = False
        #: Whether any byte came in answer to the last request.
        self.has_received = False

    async def send_request(
        self, head: bytes, body: memoryview, deadline: Deadline
    ) -> http1.ResponseHead:
        """Send a request, and receive the head of its response.

        An idle connection that the service has closed is replaced once. Raises
        :class:`ConnectionFailed`, :class:`DeadlineExceeded` and :class:`ProtocolViolation`.
        """
        self._deadline = deadline
        if self._stream is not None and self._stream.is_idle():
            try:
                return await self._attempt(self._stream, head, body)
            except ConnectionFailed:
                if self.has_received:
                    raise
        self.close()
        self._stream = await self._open()
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        return await self._attempt(self._stream, head, body)

    async def receive_body(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Receive the response's body into the reader's buffers."""
        body, stream = self._body, self._stream
        assert body is not None
        assert stream is not None
        try:
            while not body.is_whole:
                buffer = reader.get_buffer()
                count = body.read_into(buffer)
                if not count and not body.is_whole:
                    limit = body.direct_bytes
                    memory = buffer[:limit] if limit else self._buffer
                    received = await stream.receive_into(memory, deadline)
                    if not received:
                        body.feed_eof()
                    elif limit:
                        body.advance(received)
                        count = received
                    else:
                        body.feed(memory[:received])
                if count:
                    reader.advance(count)
        except EOFError:
            raise ConnectionFailed(
                "the service closed the connection within its response"
            ) from None
        except OSError as error:
            raise ConnectionFailed(f"the connection broke within the response: {error}") from error

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the response was read to its end, and no further."""
        body = self._body
        return self._is_persistent and body is not None and body.is_whole and not body.buffered

    def close(self) -> None:
        """Close the stream, if it is open."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _attempt(self, stream: Stream, head: bytes, body: memoryview) -> http1.ResponseHead:
        self.has_received = self._is_persistent = False
        is_sent, send_error = False, None
        try:
            is_sent = await stream.send([memoryview(head), body], self._deadline)
        except OSError as error:
            # The service may have refused the request before it was received whole.
            send_error = error
        try:
            response, buffered = await self._receive_head(stream)
        except EOFError:
            reason = send_error or "it closed the connection"
            raise ConnectionFailed(f"the service sent no response: {reason}") from send_error
        except OSError as error:
            hint = "; cert= gives the client's certificate" if _asks_for_certificate(error) else ""
            raise ConnectionFailed(f"the service sent no response: {error}{hint}") from error
        self._body = http1.BodyReader(response.length, buffered, is_chunked=response.is_chunked)
        self._is_persistent = is_sent and not response.is_last
        return response

    async def _receive_head(self, stream: Stream) -> tuple[http1.ResponseHead, bytearray]:
        """The head of the final response, and the bytes behind it."""
        received = bytearray()
        while count := await stream.receive_into(self._buffer, self._deadline):
            self.has_received = True
            received += self._buffer[:count]
            while found := http1.split_head(received):
                head, length = found
                del received[:length]
                if head.status >= 200:  # not an interim response (RFC 9110, 15.2)
                    return head, received
        raise EOFError

    async def _open(self) -> Stream:
        try:
            connect = self._concurrency.stream.connect
            return await connect(self._address, self._tls, self._deadline)
        except (OSError, ValueError) as error:
            where = self._address.uds or self._address.host_header
            if isinstance(error, TimeoutError) and error.errno is None:
                # The deadline's; the kernel's ETIMEDOUT has a number.
                raise DeadlineExceeded(f"cannot connect to {where} in time") from error
            failure = ConnectionFailed(f"cannot connect to {where}: {error}{_advice(error)}")
            failure.is_connected = False
            failure.add_note(
                f"Is a service running at {where}? Pass its URL, or set TENSOR_ROUND_URL."
            )
            failure.is_unavailable = isinstance(error, _REFUSALS)
            # The service's certificate will be the same at the next try.
            failure.transient = not isinstance(error, ssl.SSLCertVerificationError)
            raise failure from error


def _asks_for_certificate(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError) and "CERTIFICATE_REQUIRED" in (error.reason or "")


def _advice(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "; verify= names the certificates to trust"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "; the service may speak http://"
    return ""


#: Cached beginnings of request heads; each has a few hundred bytes.
_CACHED_HEADS = 256


class HTTPTransport:
    """Sends requests to one address over a pool of connections, blocking or asynchronous.

    ``common`` are the headers of every request.
    """

    is_in_process = False

    def __init__(self, address: Address, common: Headers, pool: Connections) -> None:
        lines = _lines([(b"Host", address.host_header.encode()), *common])
        start = partial(_head_start, address.prefix.encode(), lines)
        self._head_start = lru_cache(maxsize=_CACHED_HEADS)(start)
        self._pool = pool
        self._is_plain = address.scheme == "http" and address.uds is None
        #: Whether a response has come.
        self._has_answered = False

    async def send(self, request: Request, deadline: Deadline) -> HTTPResponse:
        """Send a request, and receive the head of its response."""
        start = self._head_start(request.method, request.path, request.fixed)
        head = b"%s%s\r\n" % (start, _lines(request.varying))
        connection = await self._pool.acquire(deadline)
        try:
            response = await connection.send_request(head, request.body, deadline)
        except BaseException as error:
            connection.close()
            self._pool.release(connection)
            if isinstance(error, ConnectionFailed) and self._may_be_encrypted(error, connection):
                error.restate(f"{error.detail}; the service may speak https://")
            raise
        self._has_answered = True
        return HTTPResponse(
            response.status, response.fields, connection.receive_body, connection, self._pool
        )

    def _may_be_encrypted(self, error: ConnectionFailed, connection: Connection) -> bool:
        """Whether a service that never answered closed a connection without a word."""
        is_silent = error.is_connected and not (connection.has_received or self._has_answered)
        return self._is_plain and is_silent

    async def close(self) -> None:
        """Close idle connections now, and the others when their responses are closed."""
        await self._pool.close()


@dataclass(slots=True)
class HTTPResponse:
    """A response, with the connection that its body is received on."""

    status: int
    fields: Mapping[str, str]
    #: Receives the body into the reader's buffers.
    receive: Receive
    connection: Connection
    pool: Connections

    async def close(self) -> None:
        """Release the connection; close it unless the response was read to its end."""
        if not self.connection.is_reusable:
            self.connection.close()
        self.pool.release(self.connection)


def _head_start(
    prefix: bytes, common: bytes, method: str, path: str, fixed: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """The part of a request head that similar requests have in common."""
    request_line = b"%s %s%s HTTP/1.1\r\n" % (method.encode(), prefix, path.encode())
    return b"".join((request_line, common, _lines(fixed)))


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(map(b"%s: %s\r\n".__mod__, headers))
