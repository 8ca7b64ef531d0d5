"""A wire on a blocking socket: memory goes to the operating system as it is."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

from ..address import Address
from ..deadline import Deadline
from ..look_up import Place, look_up
from . import together

#: TLS copies anyway; a body up to this size goes into one record with its head.
_ONE_RECORD_BYTES = 16 << 10


async def open_wire(
    address: Address, tls: ssl.SSLContext | None, deadline: Deadline
) -> BlockingWire:
    """Connect to the first of the host's addresses that takes us."""
    sock = _connected(address, deadline)
    if tls is None:
        return BlockingWire(sock, is_tls=False)
    try:
        # For the whole of the handshake, however many turns it takes.
        sock.settimeout(deadline.remaining())
        return BlockingWire(tls.wrap_socket(sock, server_hostname=address.host), is_tls=True)
    except BaseException:
        sock.close()
        raise


class BlockingWire:
    """Waits in the calling thread, a little at a time, to look at the deadline between."""

    def __init__(self, sock: socket.socket, *, is_tls: bool) -> None:
        self._socket = sock
        self._is_tls = is_tls
        # Windows has no sendmsg.
        self._gathers = not is_tls and hasattr(sock, "sendmsg")
        self._has_something = _watch(sock)
        self._wait: float | None = None

    def is_silent(self) -> bool:
        """Whether a look into the socket's buffer finds it empty and open."""
        return not self._has_something()

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts until something comes back; whether all was sent by then."""
        if self._is_tls:
            parts = together(parts, _ONE_RECORD_BYTES)
        left = sum(map(len, parts))
        while True:
            self._wait_for(deadline.next_wait())
            try:
                sent = self._socket.sendmsg(parts) if self._gathers else self._socket.send(parts[0])
            except TimeoutError:
                sent = 0
            left -= sent
            if not left:
                return True
            parts = _unsent(parts, sent)
            # Under TLS, what has come may be the session's own.
            if not self._is_tls and not self.is_silent():
                return False

    async def receive_into(self, memory: memoryview, deadline: Deadline) -> int:
        """Receive at least a byte; 0 at the end of the stream."""
        while True:
            self._wait_for(deadline.next_wait())
            try:
                return self._socket.recv_into(memory)
            except TimeoutError:
                continue

    def _wait_for(self, seconds: float) -> None:
        """Have the socket wait that long: a system call where that is not as before."""
        if seconds != self._wait:
            self._socket.settimeout(seconds)
            self._wait = seconds

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


def _watch(sock: socket.socket) -> Callable[[], bool]:
    """What tells, without waiting, whether a socket has bytes to give, or its end."""
    if not hasattr(select, "poll"):  # Windows has none, and no limit to what select takes
        return lambda: bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return lambda: bool(poll.poll(0))


def _connected(address: Address, deadline: Deadline) -> socket.socket:
    if address.uds is not None:
        return _connect(socket.AF_UNIX, address.uds, deadline)
    failure = OSError("the host has no address")
    for family, place in _places(address, deadline):
        try:
            sock = _connect(family, place, deadline)
        except OSError as error:
            failure = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise failure


def _places(address: Address, deadline: Deadline) -> list[Place]:
    found = look_up(address)
    while True:
        try:
            return found.result(deadline.next_wait())
        except TimeoutError:
            if found.done():  # it is the system's own, or came just now
                return found.result()


def _connect(family: int, place: Any, deadline: Deadline) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.remaining())
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock
