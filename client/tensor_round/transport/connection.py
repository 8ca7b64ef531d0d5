"""HTTP/1.1 on a stream: one request at a time, from and into the caller's memory."""

from __future__ import annotations

import ssl
from typing import Any

from ..contract.errors import ConnectionFailed, DeadlineExceeded
from ..contract.wire import http1
from ..messages.response_readers import ResponseReader
from .address import Address
from .deadline import Deadline
from .streams import Opener, Stream

#: The buffer for heads and chunk framing, in bytes; a small body is received with its head.
_BUFFER_BYTES = 16 << 10
#: Errors of connecting while nobody listens, or whoever did so ends: ENOENT is that of a Unix
#: socket, EAGAIN one with too many waiting, and an end within the TLS handshake has its own class.
_REFUSALS = ConnectionError, FileNotFoundError, BlockingIOError, ssl.SSLEOFError
#: OpenSSL's reasons, by version, when the peer does not speak TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


class Connection:
    """A connection to one address, opened on first use, and again after it was closed."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, opener: Opener) -> None:
        self._address = address
        self._tls = tls
        self._opener = opener
        self._stream: Stream | None = None
        self._deadline = Deadline(None)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._body: http1.BodyReader | None = None
        self._is_persistent = False
        self._has_received = False

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
                if self._has_received:
                    raise
        self.close()
        self._stream = await self._open()
        return await self._attempt(self._stream, head, body)

    async def receive_body(self, reader: ResponseReader[Any]) -> None:
        """Receive the response's body into the reader's buffers."""
        body = self._body
        assert body is not None
        while not body.is_whole:
            buffer = reader.get_buffer()
            if count := body.read_into(buffer) or await self._receive(body, buffer):
                reader.advance(count)

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the response was read to its end, and no further."""
        body = self._body
        return self._is_persistent and body is not None and body.is_whole and not body.surplus

    def close(self) -> None:
        """Close the stream, if it is open."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _attempt(self, stream: Stream, head: bytes, body: memoryview) -> http1.ResponseHead:
        self._has_received = self._is_persistent = False
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
        self._body = http1.BodyReader(response, buffered)
        self._is_persistent = is_sent and not response.is_last
        return response

    async def _receive_head(self, stream: Stream) -> tuple[http1.ResponseHead, bytearray]:
        """The head of the final response, and the bytes behind it."""
        received = bytearray()
        while count := await stream.receive_into(self._buffer, self._deadline):
            self._has_received = True
            received += self._buffer[:count]
            while found := http1.split_head(received):
                head, length = found
                del received[:length]
                if not head.is_interim:
                    return head, received
        raise EOFError

    async def _receive(self, body: http1.BodyReader, memory: memoryview) -> int:
        """Receive bytes of the body, at least one; 0 at its end."""
        assert self._stream is not None
        try:
            while not body.is_whole:
                if limit := body.direct_bytes:
                    count = await self._stream.receive_into(memory[:limit], self._deadline)
                    body.advance(count)
                    if count:
                        return count
                    body.feed_eof()
                elif count := await self._stream.receive_into(self._buffer, self._deadline):
                    body.feed(self._buffer[:count])
                    if count := body.read_into(memory):
                        return count
                else:
                    body.feed_eof()
        except EOFError:
            raise ConnectionFailed(
                "the service closed the connection within its response"
            ) from None
        except OSError as error:
            raise ConnectionFailed(f"the connection broke within the response: {error}") from error
        return 0

    async def _open(self) -> Stream:
        try:
            return await self._opener(self._address, self._tls, self._deadline)
        except (OSError, ValueError) as error:
            where = self._address.uds or self._address.host_header
            if isinstance(error, TimeoutError) and error.errno is None:
                # The deadline's; the kernel's ETIMEDOUT has a number.
                raise DeadlineExceeded(f"{where} was not connected to in time") from error
            failure = ConnectionFailed(f"cannot connect to {where}: {error}{_advice(error)}")
            failure.was_sent = False
            failure.is_refused_connection = isinstance(error, _REFUSALS)
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
