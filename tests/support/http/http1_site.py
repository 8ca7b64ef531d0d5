"""A server of HTTP/1.1 in this process, whose clock tests set forward, and its peers' sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.services.tls import SERVER, caller_context
from tensor_round_service.net.head import Header
from tensor_round_service.net.http1.connection import Connection, HTTPProtocol
from tensor_round_service.net.lifecycle import State
from tensor_round_service.net.limits import ConnectionLimits
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import FixedFields, Response
from tensor_round_service.net.server import FinishedExchange, OtherProtocol
from tensor_round_service.process.tls import server_context

#: What takes longer never comes.
SECONDS = 20
#: Each time limit is unlike the others by more than a busy machine is late.
LIMITS = ConnectionLimits(
    receive_timeout=10_000,
    keep_alive=20_000,
    crowded_keep_alive=2000,
    crowd=100,
    rate_interval=1000,
    linger_before=3000,
    linger_seconds=4000,
    linger_bytes=5000,
    drain_grace=6000,
    first_grace=7000,
    min_receive_rate=10,
    min_send_rate=10,
)
LATE = 200
#: What a handler sends that could not create a response.
PREALLOCATED = b"HTTP/1.1 500 Internal Server Error\r\n\r\n"


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is ahead."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def pass_time(seconds: float) -> None:
    """Set the clock forward; on return, what was due by then has run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop.ahead += seconds
    for _ in range(4):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for it; fails if it does not come."""
    async with asyncio.timeout(SECONDS):
        while not is_so():
            await asyncio.sleep(0.001)


def text(content: bytes | memoryview, status: int = 200) -> Response:
    return Response(status, FixedFields((b"a", b"b")), [content], [])


async def echo(request: Request) -> Response:
    """The response to a request: its body."""
    body = memoryview(bytearray(request.head.length or 0))
    await request.receive_into(body)
    return text(body)


class Owner:
    """The memory of a response, which notes what becomes of it."""

    def __init__(self) -> None:
        self.reserved = 0
        self.ended: list[tuple[bool, bool]] = []

    def reserve(self, nbytes: int) -> None:
        self.reserved += nbytes

    def end(self, reusable: bool, is_sent: bool) -> None:
        self.ended.append((reusable, is_sent))


def owned(content: bytes | memoryview, status: int = 200) -> tuple[Response, Owner]:
    """A response, and the owner of its memory."""
    response = text(content, status)
    response.owner = owner = Owner()
    return response, owner


def fixed(response: Response) -> Callable[[Request], Awaitable[Response]]:
    """A handler's answer that is the same for each request."""

    async def respond(_: Request) -> Response:
        return response

    return respond


class Handler:
    """Answers as it is told, and notes what connections tell it."""

    logs_access = True

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self.answer = answer
        self.refused: list[tuple[str, Exception]] = []
        self.failures: list[Exception] = []
        self.left: list[tuple[str, int]] = []
        self.exchanges: list[FinishedExchange] = []
        #: Called at the end of each exchange.
        self.logged: Callable[[], None] = lambda: None

    async def respond(self, request: Request) -> Response:
        return await self.answer(request)

    def refuse(self, path: str, error: Exception, request: Request | None = None) -> Response:
        self.refused.append((path, error))
        return text(type(error).__name__.encode(), 400)

    def preallocated_response(self, path: str, error: Exception) -> tuple[Response, bytes]:
        self.failures.append(error)
        return text(b"", 500), PREALLOCATED

    def finished(self, exchange: FinishedExchange) -> None:
        if exchange.response is None:
            self.left.append((exchange.path, 0 if exchange.head is None else exchange.received))
        if self.logs_access:
            self.exchanges.append(exchange)
            self.logged()

    @property
    def statuses(self) -> list[int | None]:
        """Of each exchange that is over; None if its caller has left."""
        return [each.response and each.response.status for each in self.exchanges]


@dataclass
class Server:
    """What a server keeps of its connections."""

    connections: set[Any] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    default_headers: list[Header] = field(default_factory=list)


class Peer:
    """A client's socket, its connection in the server, and what the server keeps."""

    #: Its end of a connection with TLS.
    writer: asyncio.StreamWriter

    def __init__(self, sock: socket.socket, site: Site, connection: Connection) -> None:
        self.sock, self.connection = sock, connection
        self.server, self.handler = site.state, site.handler
        self._loop = asyncio.get_running_loop()

    async def send(self, *parts: bytes) -> None:
        await self._loop.sock_sendall(self.sock, b"".join(parts))

    async def read(self, nbytes: int) -> bytes:
        """So many bytes, less only at the end."""
        got = b""
        async with asyncio.timeout(SECONDS):
            while more := await self._receive(min(nbytes - len(got), 1 << 20)):
                got += more
        return got

    async def _receive(self, most: int) -> bytes:
        return await self._loop.sock_recv(self.sock, most)

    async def end(self) -> bytes:
        """What comes until the server stops sending."""
        return await self.read(1 << 40)

    async def response(self, content: bytes = b"", *lines: bytes) -> None:
        """Read a response that is exactly this one of :func:`text`."""
        expected = answer(content, *lines)
        got = await self.read(len(expected))
        assert got == expected, got

    async def state(self, state: State) -> None:
        """Wait until the connection is in this state."""
        await until(lambda: self.connection.state is state)

    @property
    def due(self) -> float:
        """In how many seconds the connection's limit is reached."""
        return self.connection._deadline.due - self._loop.time()

    def is_due_in(self, seconds: float) -> bool:
        """Whether this limit has just been set."""
        return seconds - LATE < self.due <= seconds

    def stop_sending(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    async def leave(self) -> None:
        """Close with a reset, and wait until the server knows."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        await self.state(State.CLOSED)


class EncryptedPeer(Peer):
    """The same with TLS."""

    reader: asyncio.StreamReader

    async def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    async def _receive(self, most: int) -> bytes:
        return await self.reader.read(most)


def answer(content: bytes = b"", *lines: bytes, status: bytes = b"200 OK") -> bytes:
    """The bytes of a response of :func:`text`, with these lines at the end of its head."""
    fields = (b"a: b", b"content-length: %d" % len(content), *lines)
    return b"\r\n".join((b"HTTP/1.1 " + status, *fields, b"", content))


def asked(*fields: str, line: str = "POST /p", length: int = 0, version: str = "1.1") -> bytes:
    """The head of a request."""
    lines = (f"{line} HTTP/{version}", "Host: h", f"Content-Length: {length}", *fields, "", "")
    return "\r\n".join(lines).encode()


CLOSE = b"connection: close"


def give(connection: Connection, received: bytes) -> None:
    """Have a connection receive these bytes now, as its transport does."""
    buffer = connection.get_buffer(-1)
    buffer[: len(received)] = received
    connection.buffer_updated(len(received))


class Gate:
    """A handler's answer that waits until a test lets it go on."""

    def __init__(self) -> None:
        self.opens = asyncio.Event()
        self.requests: list[Request] = []

    @property
    def waiting(self) -> int:
        """How many requests have come to it."""
        return len(self.requests)

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        await self.opens.wait()
        return await echo(request)


@dataclass
class Site:
    """A server, and a way to it."""

    address: Any
    protocol: HTTPProtocol
    state: Server
    handler: Handler
    #: How callers connect; None without TLS.
    callers: ssl.SSLContext | None

    @asynccontextmanager
    async def peer(self, *, receives: int | None = None) -> AsyncIterator[Peer]:
        """A new connection, with TLS if the server has it; ``receives`` is its receive buffer."""
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        before = self.state.connections.copy()
        with socket.socket(family) as sock:
            sock.setblocking(False)
            if receives is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
            await asyncio.get_running_loop().sock_connect(sock, self.address)
            if self.callers is not None:
                reader, writer = await asyncio.open_connection(
                    sock=sock, ssl=self.callers, server_hostname="localhost"
                )
            await until(lambda: self.state.connections - before)
            (connection,) = self.state.connections - before
            if self.callers is None:
                yield Peer(sock, self, connection)
            else:
                peer = EncryptedPeer(sock, self, connection)
                peer.reader, peer.writer = reader, writer
                try:
                    yield peer
                finally:
                    writer.transport.abort()


@asynccontextmanager
async def serving(
    respond: Callable[[Request], Awaitable[Response]] = echo,
    limits: ConnectionLimits = LIMITS,
    *,
    other: OtherProtocol | None = None,
    encrypted: bool = False,
    on_unix: bool = False,
) -> AsyncIterator[Site]:
    """A server; behind it no connection and no task is left."""
    loop = asyncio.get_running_loop()
    handler, state, failures = Handler(respond), Server(), list[Any]()
    loop.set_exception_handler(lambda _, failure: failures.append(failure))
    protocol = HTTPProtocol(handler, limits, other)
    tls = server_context(SERVER, alpn="h2") if encrypted else None

    def connection() -> Connection:
        return protocol(server_state=state)

    with TemporaryDirectory() as folder:
        if on_unix:
            server = await loop.create_unix_server(connection, Path(folder, "socket"))
        else:
            server = await loop.create_server(connection, "127.0.0.1", 0, ssl=tls)
        address = server.sockets[0].getsockname()
        try:
            yield Site(address, protocol, state, handler, caller_context() if encrypted else None)
        finally:
            server.close()
            for each in list(state.connections):
                if each.transport is not None:
                    each.transport.abort()
            await until(lambda: not state.connections and not state.tasks)
            assert not failures, failures
