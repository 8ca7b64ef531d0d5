"""HTTP/1.1 on a wire: one request at a time, from and into the caller's memory."""

from __future__ import annotations

import ssl
from typing import Any

from ..errors import ConnectionFailed, DeadlineExceeded
from ..messages.reader import Intake
from ..wire import http1
from .address import Address
from .deadline import Deadline
from .wires import Opener, Wire

#: Received at once where it is not yet known what comes: a head, and a small body with it.
_SPARE_BYTES = 16 << 10
#: What OpenSSL says, by its version, of what comes back in the clear.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


class Connection:
    """A connection to one address, opened when it is needed, and again when it has died."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, opener: Opener) -> None:
        self._address = address
        self._tls = tls
        self._opener = opener
        self._wire: Wire | None = None
        self._deadline = Deadline(None)
        self._spare = memoryview(bytearray(_SPARE_BYTES))
        self._body: http1.BodyReader | None = None
        self._can_follow = False
        self._has_heard = False

    async def exchange(self, head: bytes, body: memoryview, deadline: Deadline) -> http1.Head:
        """Send a request, and read the head of the answer.

        A kept connection that turns out to be closed, as services close idle ones, is
        replaced once. Raises :class:`ConnectionFailed`, :class:`DeadlineExceeded` and
        :class:`ProtocolViolation`.
        """
        self._deadline = deadline
        if self._wire is not None and self._wire.is_silent():
            try:
                return await self._attempt(self._wire, head, body)
            except ConnectionFailed:
                if self._has_heard:
                    raise
        self.close()
        self._wire = await self._open()
        return await self._attempt(self._wire, head, body)

    async def pour(self, intake: Intake[Any]) -> None:
        """Receive the answer's body to where the intake wants it."""
        body = self._body
        assert body is not None
        while not body.is_whole:
            room = intake.room()
            if count := body.take(room) or await self._receive(body, room):
                intake.took(count)

    @property
    def can_follow(self) -> bool:
        """Whether another request may follow the last one, its answer being read to its end."""
        body = self._body
        return self._can_follow and body is not None and body.is_whole and not body.surplus

    def close(self) -> None:
        """Hang up, if it is open."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def _attempt(self, wire: Wire, head: bytes, body: memoryview) -> http1.Head:
        self._has_heard = self._can_follow = False
        is_sent, send_error = False, None
        try:
            is_sent = await wire.send([memoryview(head), body], self._deadline)
        except OSError as error:
            # There may be an answer even so: a service need not hear all to refuse.
            send_error = error
        try:
            answer, early = await self._read_head(wire)
        except EOFError:
            reason = send_error or "it hung up"
            raise ConnectionFailed(f"no answer came from the service: {reason}") from send_error
        except OSError as error:
            asks = "; cert= names a certificate of ours" if _asks_for_certificate(error) else ""
            raise ConnectionFailed(f"no answer came from the service: {error}{asks}") from error
        self._body = http1.BodyReader(answer, early)
        self._can_follow = is_sent and not answer.is_last
        return answer

    async def _read_head(self, wire: Wire) -> tuple[http1.Head, bytearray]:
        """The head of the answer, and what came with it of the body."""
        received = bytearray()
        while count := await wire.receive_into(self._spare, self._deadline):
            self._has_heard = True
            received += self._spare[:count]
            while found := http1.split_head(received):
                head, length = found
                del received[:length]
                if not head.is_interim:
                    return head, received
        raise EOFError

    async def _receive(self, body: http1.BodyReader, memory: memoryview) -> int:
        """Receive what comes next of a body, at least a byte; 0 at its end."""
        assert self._wire is not None
        try:
            while not body.is_whole:
                if wanted := body.wanted:
                    count = await self._wire.receive_into(memory[:wanted], self._deadline)
                    body.took(count)
                    if count:
                        return count
                    body.end()
                elif count := await self._wire.receive_into(self._spare, self._deadline):
                    body.feed(self._spare[:count])
                    if taken := body.take(memory):
                        return taken
                else:
                    body.end()
        except EOFError:
            raise ConnectionFailed("the service hung up within its answer") from None
        except OSError as error:
            raise ConnectionFailed(f"the connection broke within the answer: {error}") from error
        return 0

    async def _open(self) -> Wire:
        try:
            return await self._opener(self._address, self._tls, self._deadline)
        except (OSError, ValueError) as error:
            where = self._address.uds or self._address.host_header
            if isinstance(error, TimeoutError) and error.errno is None:
                # Our own, at the deadline; the kernel's has a number.
                raise DeadlineExceeded(f"{where} was not connected to in time") from error
            failure = ConnectionFailed(f"cannot connect to {where}: {error}{_advice(error)}")
            # A certificate gets no better by trying again.
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
