"""A stream on a blocking socket, which sends the caller's memory without copies."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

from ..address import Address
from ..deadline import Deadline
from ..resolver import SocketAddress, resolve_host
from . import coalesce

#: TLS copies anyway; a request up to this size is sent as one record.
_ONE_RECORD_BYTES = 16 << 10


async def open_stream(
    address: Address, tls: ssl.SSLContext | None, deadline: Deadline
) -> BlockingStream:
    """Connect to the first of the host's addresses that accepts the connection."""
    sock = _connected(address, deadline)
    if tls is None:
        return BlockingStream(sock, is_tls=False)
    try:
        # One limit for the whole handshake.
        sock.settimeout(deadline.remaining())
        return BlockingStream(tls.wrap_socket(sock, server_hostname=address.host), is_tls=True)
    except BaseException:
        sock.close()
        raise


class BlockingStream:
    """Blocks the calling thread, for short waits between which it checks the deadline."""

    def __init__(self, sock: socket.socket, *, is_tls: bool) -> None:
        self._socket = sock
        self._is_tls = is_tls
        # Windows has no sendmsg.
        self._has_sendmsg = not is_tls and hasattr(sock, "sendmsg")
        self._is_readable = _readiness_check(sock)
        self._timeout: float | None = None

    def is_idle(self) -> bool:
        """Whether the stream is open and no received bytes are waiting."""
        return not self._is_readable()

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts; stop when bytes are received. Returns whether everything was sent."""
        if self._is_tls:
            parts = coalesce(parts, _ONE_RECORD_BYTES)
        left = sum(map(len, parts))
        while True:
            self._set_timeout(deadline.next_wait())
            try:
                sent = (
                    self._socket.sendmsg(parts)
                    if self._has_sendmsg
                    else self._socket.send(parts[0])
                )
            except TimeoutError:
                sent = 0
            left -= sent
            if not left:
                return True
            parts = _unsent(parts, sent)
            # Under TLS the received bytes may be session tickets.
            if not self._is_tls and not self.is_idle():
                return False

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least one byte; the number of bytes, 0 at the end of the stream."""
        while True:
            self._set_timeout(deadline.next_wait())
            try:
                return self._socket.recv_into(memory)
            except TimeoutError:
                continue

    def _set_timeout(self, seconds: float) -> None:
        """Set the socket's timeout, unless it is set: each change is a system call."""
        if seconds != self._timeout:
            self._socket.settimeout(seconds)
            self._timeout = seconds

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _unsent(parts: list[memoryview], sent: int) -> list[memoryview]:
    rest = []
    for part in parts:
        if sent < len(part):
            rest.append(part[sent:])
        sent = max(0, sent - len(part))
    return rest


def _readiness_check(sock: socket.socket) -> Callable[[], bool]:
    """A function that tells at once whether a socket is readable or at its end."""
    if not hasattr(select, "poll"):  # Windows has select only, without a limit on descriptors
        return lambda: bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return lambda: bool(poll.poll(0))


def _connected(address: Address, deadline: Deadline) -> socket.socket:
    if address.uds is not None:
        return _connect(socket.AF_UNIX, address.uds, deadline)
    failure = OSError("the host has no address")
    for family, sockaddr in _resolved(address, deadline):
        try:
            sock = _connect(family, sockaddr, deadline)
        except OSError as error:
            failure = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise failure


def _resolved(address: Address, deadline: Deadline) -> list[SocketAddress]:
    found = resolve_host(address)
    while True:
        try:
            return found.result(deadline.next_wait())
        except TimeoutError:
            if found.done():  # getaddrinfo itself timed out, or has just ended
                return found.result()


def _connect(family: int, sockaddr: Any, deadline: Deadline) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.remaining())
        sock.connect(sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock
