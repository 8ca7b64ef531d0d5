"""One HTTP/1.1 connection on a socket of our own.

Bodies are sent from their memory, and received by ``recv_into`` where they belong.
Every wait keeps to the call's deadline.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from .address import Address
from .deadline import Deadline
from .errors import ConnectionFailed
from .wire import http1

#: Received at once where it is not yet known what comes: a head, and a small body with it.
_SPARE_BYTES = 16 << 10
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
        self._spare = memoryview(bytearray(_SPARE_BYTES))
        self._body: http1.BodyReader | None = None
        self._can_follow = False
        self._has_heard = False

    def exchange(self, head: bytes, body: memoryview, deadline: Deadline) -> http1.Head:
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

    def read_into(self, memory: memoryview) -> int:
        """Receive what has come of the answer's body, at least a byte; 0 at its end."""
        assert self._body is not None
        assert self._socket is not None
        body = self._body
        try:
            while not (count := body.take(memory)) and not body.is_whole:
                if wanted := body.wanted:
                    count = self._receive_into(self._socket, memory[:wanted])
                    body.took(count)
                    if count:
                        break
                    body.end()
                elif early := self._receive(self._socket):
                    body.feed(early)
                else:
                    body.end()
        except EOFError:
            raise ConnectionFailed("the service hung up within its answer") from None
        except OSError as error:
            raise ConnectionFailed(f"the connection broke within the answer: {error}") from error
        return count

    @property
    def can_follow(self) -> bool:
        """Whether another request may follow the last one, its answer being read to its end."""
        body = self._body
        return self._can_follow and body is not None and body.is_whole and not body.surplus

    def close(self) -> None:
        """Close the socket, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _attempt(self, sock: socket.socket, head: bytes, body: memoryview) -> http1.Head:
        self._has_heard = self._can_follow = False
        sent_whole = False
        try:
            sent_whole = self._send(sock, head, body)
        except OSError as error:
            # There may be an answer even so: a service need not hear all to refuse.
            send_error: OSError | None = error
        else:
            send_error = None
        try:
            answer, early = self._read_head(sock)
        except (EOFError, OSError) as error:
            reason = send_error or (error if isinstance(error, OSError) else "it hung up")
            raise ConnectionFailed(f"no answer came from the service: {reason}") from send_error
        self._body = http1.BodyReader(answer, early)
        self._can_follow = sent_whole and not answer.is_last
        return answer

    def _read_head(self, sock: socket.socket) -> tuple[http1.Head, bytearray]:
        """The head of the answer, and what came with it of the body."""
        received = bytearray()
        while more := self._receive(sock):
            received += more
            while found := http1.split_head(received):
                head, length = found
                del received[:length]
                if not head.is_interim:
                    return head, received
        raise EOFError

    def _receive(self, sock: socket.socket) -> memoryview:
        """What has come, in memory that the next call uses again; empty at the end."""
        return self._spare[: self._receive_into(sock, self._spare)]

    def _receive_into(self, sock: socket.socket, memory: memoryview) -> int:
        while True:
            sock.settimeout(self._deadline.next_wait())
            try:
                count = sock.recv_into(memory)
            except TimeoutError:
                continue
            self._has_heard = self._has_heard or count > 0
            return count

    def _send(self, sock: socket.socket, head: bytes, body: memoryview) -> bool:
        """Send a request until the service answers; whether it was sent whole by then."""
        if self._tls is not None and len(body) <= _ONE_RECORD_BYTES:
            parts = [memoryview(head + bytes(body))]
        else:
            parts = [memoryview(head), body]
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
            if parts[-1] and self._tls is None and not _is_silent(sock):
                return False
        return True

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
