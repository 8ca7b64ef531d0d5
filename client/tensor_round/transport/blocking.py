"""The synchronous client's waits: threads, pools and streams that block."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, Self, TypeVar

from ..contract.errors import InvalidArgument
from .address import Address, SocketAddress, resolve_host
from .concurrency import Task, Work
from .exchange import LONGEST_WAIT, Deadline
from .http import Connection, coalesce

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, and so ends in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine of the synchronous client waited for an event loop")


#: TLS copies anyway; a request up to this size is sent as one record.
_ONE_RECORD_BYTES = 16 << 10


class Pool:
    """At most ``size`` connections, made by ``make``; thread-safe.

    The connection released last is acquired first. A forked child's pool is full of new ones: two
    processes on one connection would receive each other's responses.
    """

    def __init__(self, make: Callable[[], Connection], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._fill()
        _POOLS.add(self)

    def _fill(self) -> None:
        self._all = [self._make() for _ in range(self._size)]
        self._idle = self._all.copy()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    async def acquire(self, deadline: Deadline) -> Connection:
        """Wait for a connection for the caller alone; raises :class:`DeadlineExceeded`."""
        with self._lock:
            while not (self._idle or self._closed):
                self._waiting += 1
                try:
                    self._changed.wait(deadline.next_wait())
                finally:
                    self._waiting -= 1
            if self._closed:
                raise InvalidArgument("the client is closed")
            return self._idle.pop()

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        with self._lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
                if self._waiting:
                    self._changed.notify()

    async def close(self) -> None:
        """Close idle connections now, and the others when they are released."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._changed.notify_all()

    def reset_after_fork(self) -> None:
        """In a forked child: close the copies of the parent's sockets, which stay open there."""
        for connection in self._all:
            connection.close()
        # The old lock may be held by a thread that the child does not have.
        self._fill()


#: A forked child has no other thread of its parent, and no use of its sockets.
_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _reset_pools_after_fork() -> None:
    for pool in list(_POOLS):
        pool.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools_after_fork)


class BlockingStream:
    """Blocks the calling thread, for short waits between which it checks the deadline."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        # Windows has no sendmsg.
        self._has_sendmsg = not self._is_tls and hasattr(sock, "sendmsg")
        self._ready_sockets = _readiness_check(sock)
        self._timeout: float | None = None

    @classmethod
    async def connect(
        cls, address: Address, tls: ssl.SSLContext | None, deadline: Deadline
    ) -> Self:
        """Connect to the first of the host's addresses that accepts the connection."""
        if address.uds is not None:
            return cls(_connected(socket.AF_UNIX, address.uds, address, tls, deadline))
        failure = OSError("the host has no address")
        for family, sockaddr in _resolved(address, deadline):
            try:
                return cls(_connected(family, sockaddr, address, tls, deadline))
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        raise failure

    def is_idle(self) -> bool:
        """Whether the stream is open and no received bytes are waiting."""
        return not self._ready_sockets(0)

    async def send(self, parts: list[memoryview], deadline: Deadline) -> bool:
        """Send the parts; stop when bytes are received. Returns whether everything was sent."""
        if self._is_tls:
            parts = coalesce(parts, _ONE_RECORD_BYTES)
        left = sum(map(len, parts))
        while True:
            if (wait := deadline.next_wait()) != self._timeout:
                self._set_timeout(wait)
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
            if (wait := deadline.next_wait()) != self._timeout:
                self._set_timeout(wait)
            try:
                return self._socket.recv_into(memory)
            except TimeoutError:
                continue

    def _set_timeout(self, seconds: float) -> None:
        """Set the socket's timeout, which is a system call."""
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


def _readiness_check(sock: socket.socket) -> Callable[[int], Sequence[object]]:
    """A function of a time limit: it lists the socket once that is readable or at its end."""
    if not hasattr(select, "poll"):  # Windows has select only, without a limit on descriptors
        return lambda seconds: select.select([sock], [], [], seconds)[0]
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return poll.poll


def _resolved(address: Address, deadline: Deadline) -> list[SocketAddress]:
    found = resolve_host(address)
    while True:
        try:
            return found.result(deadline.next_wait())
        except TimeoutError:
            if found.done():  # getaddrinfo itself timed out, or has just ended
                return found.result()


def _connected(
    family: int, sockaddr: Any, address: Address, tls: ssl.SSLContext | None, deadline: Deadline
) -> socket.socket:
    """A socket that is connected within the deadline, with TLS if a context is given."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(deadline.remaining())
        sock.connect(sockaddr)
        if address.uds is None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return sock
        # One limit for the whole handshake.
        sock.settimeout(deadline.remaining())
        return tls.wrap_socket(sock, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise


class Threads:
    """Blocks the calling thread, and starts further ones for the tiles of a call."""

    is_async = False
    pool = Pool
    stream = BlockingStream

    def within(self, deadline: Deadline, work: Task[T]) -> Awaitable[T]:
        """The result of the work, which checks the deadline at every wait."""
        return work()

    async def sleep(self, seconds: float, deadline: Deadline) -> None:
        """Wait for this many seconds, or until the deadline expires."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            deadline.remaining()
            time.sleep(min(left, LONGEST_WAIT))

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of the work, done in this thread."""
        return work()

    async def for_each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on the items in threads, which end before this returns."""
        lock = threading.Lock()

        def next_item() -> T:
            with lock:
                return next(items)

        def loop() -> None:
            with contextlib.suppress(StopIteration):
                while True:
                    run(work(next_item()))

        with ThreadPoolExecutor(workers, thread_name_prefix="tensor-round") as threads:
            # Each thread has the caller's context variables, of traces and logs, say.
            futures = [threads.submit(copy_context().run, loop) for _ in range(workers)]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                deadline.expire()
                raise
