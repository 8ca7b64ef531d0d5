"""One HTTP/1.1 connection on a socket of our own.

Bodies are sent from their memory by the operating system, and received by
``recv_into`` where they belong. Heads are read by the standard library's
:class:`http.client.HTTPResponse`, on a reader that keeps to the call's deadline.
"""

from __future__ import annotations

import io
import socket
import ssl
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, cast

from .address import Address
from .deadline import Deadline
from .errors import ConnectionFailed, ProtocolViolation

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: TLS copies anyway; a body up to this size goes into one record with its head.
_ONE_RECORD_BYTES = 16 << 10


class Connection:
    """A connection to one address, opened when it is needed, and again when it has died.

    One request at a time, by one thread at a time.
    """

    def __init__(self, address: Address, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._tls = tls
        self._socket: socket.socket | None = None
        self._deadline = Deadline(None)
        self._was_sent_whole = False
        self._has_heard = False
        self._has_ended = False

    def exchange(self, head: bytes, body: memoryview, deadline: Deadline) -> HTTPResponse:
        """Send a request, and read the head of the answer.

        A kept connection that turns out to be closed, as services close idle ones, is
        replaced once. Raises :class:`ConnectionFailed`, :class:`DeadlineExceeded` and
        :class:`ProtocolViolation`.
        """
        self._deadline = deadline
        if self._socket is not None and _is_silent(self._socket):
            try:
                return self._attempt(self._socket, head, body)
            except ConnectionFailed:
                if self._has_heard:
                    raise
        self.close()
        self._socket = self._open()
        return self._attempt(self._socket, head, body)

    def can_follow(self, answer: HTTPResponse) -> bool:
        """Whether another request may follow this answer, the last one, now read to its end."""
        return self._was_sent_whole and not answer.will_close

    def close(self) -> None:
        """Close the socket, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def receive_into(self, memory: WriteableBuffer) -> int:
        """Receive what has come, waiting for at least a byte; 0 at the end of the stream."""
        assert self._socket is not None
        while True:
            self._socket.settimeout(self._deadline.next_wait())
            try:
                count = self._socket.recv_into(memory)
            except TimeoutError:
                continue
            self._has_heard = self._has_heard or count > 0
            self._has_ended = count == 0
            return count

    def _attempt(self, sock: socket.socket, head: bytes, body: memoryview) -> HTTPResponse:
        self._has_heard = self._has_ended = False
        send_error = self._send(sock, head, body)
        # Of its socket, HTTPResponse wants makefile() and nothing else.
        answer = HTTPResponse(cast(socket.socket, _Source(self)))
        try:
            answer.begin()
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPException) and self._has_heard and not self._has_ended:
                raise ProtocolViolation(f"the answer is not HTTP: {error!r}") from error
            reason = send_error or error
            raise ConnectionFailed(f"the connection broke before the answer: {reason}") from reason
        if self._has_ended:
            # HTTPResponse takes the end of the stream for the end of the head.
            raise ConnectionFailed("the service hung up within the head of its answer")
        return answer

    def _send(self, sock: socket.socket, head: bytes, body: memoryview) -> OSError | None:
        """Send a request, or as much of it as the service wants to hear.

        It may answer before it has heard all, and then hang up. Returns the error that
        ended the sending; there may be an answer to read even so.
        """
        self._was_sent_whole = False
        if self._tls is not None and len(body) <= _ONE_RECORD_BYTES:
            parts = [memoryview(head + bytes(body))]
        else:
            parts = [memoryview(head), body]
        try:
            while parts := [part for part in parts if part]:
                sock.settimeout(self._deadline.next_wait())
                try:
                    sent = sock.sendmsg(parts) if self._tls is None else sock.send(parts[0])
                except TimeoutError:
                    sent = 0
                for index, part in enumerate(parts):
                    parts[index] = part[sent:]
                    sent = max(0, sent - len(part))
                # Under TLS, bytes that came may be the session's own.
                if self._tls is None and parts[-1] and not _is_silent(sock):
                    return None
        except OSError as error:
            return error
        self._was_sent_whole = True
        return None

    def _open(self) -> socket.socket:
        where = self._address.uds or self._address.host_header
        try:
            sock = self._connect()
        except (OSError, UnicodeError) as error:
            raise self._failure(f"cannot connect to {where}", error) from error
        if self._tls is None:
            return sock
        try:
            return self._tls.wrap_socket(sock, server_hostname=self._address.host)
        except (OSError, ValueError) as error:
            sock.close()
            failure = self._failure(f"no TLS with {where}", error)
            # A certificate gets no better by trying again.
            failure.transient = not isinstance(error, ssl.SSLCertVerificationError)
            raise failure from error

    def _failure(self, what: str, error: Exception) -> ConnectionFailed:
        if isinstance(error, TimeoutError):
            self._deadline.remaining()
        return ConnectionFailed(f"{what}: {error}")

    def _connect(self) -> socket.socket:
        """A socket connected to the first of the host's addresses that takes us."""
        if self._address.uds is not None:
            return self._connect_to(socket.AF_UNIX, self._address.uds)
        host, port = self._address.host, self._address.port
        failure = OSError("the host has no address")
        for family, _, _, _, name in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                sock = self._connect_to(family, name)
            except OSError as error:
                failure = error
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        raise failure

    def _connect_to(self, family: int, name: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(self._deadline.remaining())
            sock.connect(name)
        except BaseException:
            sock.close()
            raise
        return sock


class _Source(io.RawIOBase):
    """What :class:`HTTPResponse` reads: the connection, which stays open when this is closed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def makefile(self, mode: str) -> io.BufferedReader:
        """A buffered reader; large reads pass its buffer by."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, memory: WriteableBuffer) -> int:
        """Receive into the memory."""
        return self._connection.receive_into(memory)


def _is_silent(sock: socket.socket) -> bool:
    """Whether nothing has come, not even the end of the stream."""
    sock.settimeout(0)
    try:
        # The plain socket's method: under TLS, whatever has come counts.
        socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
