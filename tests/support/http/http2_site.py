"""A server that sends back what HTTP/2's streams send, and a client that knows frames alone."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support.http import http1_site
from support.http.http1_site import SECONDS, Server, text, until
from support.http.http2_frames import HEAD, HELLO, TRAILERS, Frame, data, opened, split
from tensor_round.contract.errors import ReceiveTimeout
from tensor_round_service.net.bodies import ClientDisconnected
from tensor_round_service.net.head import Head
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.connection import HTTP2
from tensor_round_service.net.http2.frames import (
    DEFAULT_WINDOW,
    FIRST_WINDOW,
    MAX_WINDOW,
    Code,
    Kind,
    Setting,
)
from tensor_round_service.net.http2.limits import SessionLimits
from tensor_round_service.net.http2.serving import ServedStream
from tensor_round_service.net.limits import ConnectionLimits
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import Response

#: Windows and frames of a client that takes everything.
WIDE = frames.window_update(0, MAX_WINDOW - DEFAULT_WINDOW) + frames.settings(
    {Setting.INITIAL_WINDOW_SIZE: MAX_WINDOW, Setting.MAX_FRAME_SIZE: 1 << 20}
)
#: A connection ends soon after its last stream.
SHORT: dict[str, Any] = {"linger_before": 0.01, "linger_seconds": 0.1}


class Handler:
    """Sends back what a stream sends, of the length that its head states."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.ended = 0
        self.filled: list[bytearray] = []
        self.sent: list[bool] = []
        #: Called with the bytes of each stream, and what it returns is the response.
        self.answer: Callable[[bytearray], list[Any]] = lambda body: [memoryview(body)]

    def takes(self, head: Head) -> bool:
        """All streams."""
        return True

    async def serve(self, stream: ServedStream) -> None:
        try:
            await self.echo(stream)
        except BaseException as error:
            self.failures.append(error)
            raise
        finally:
            self.ended += 1

    async def echo(self, stream: ServedStream) -> None:
        body = bytearray(stream.head.length or 0)
        self.filled.append(body)
        try:
            got = await stream.receive_into(memoryview(body))
        except ReceiveTimeout:
            await stream.send([], TRAILERS, head=HEAD)
            raise ClientDisconnected from None
        assert got == len(body)
        parts = self.answer(body)
        self.sent.append(await stream.send(parts, TRAILERS, head=HEAD))


async def one(request: Request) -> Response:
    """The response to a request by HTTP/1.1 on the same port."""
    return text(b"one")


class Caller:
    """A client that knows nothing but frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._rest = b""
        self.frames: list[Frame] = []
        #: Bytes of DATA that were sent, by stream.
        self._sent: Counter[int] = Counter()

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    def call(self, number: int, content: bytes) -> None:
        """Send a whole request that fits into the first window."""
        self.send(opened(number, ("content-length", str(len(content)))))
        self._sent[number] += len(content)
        self.send(data(number, content, ends=True))

    def window(self, number: int) -> int:
        """How much DATA a stream may send now."""
        open_ = {0: DEFAULT_WINDOW - self._sent.total(), number: FIRST_WINDOW - self._sent[number]}
        for each in self.frames:
            if each.kind == Kind.WINDOW_UPDATE and each.stream in open_:
                open_[each.stream] += int.from_bytes(each.payload)
        return min(open_.values())

    async def upload(self, number: int, content: bytes) -> None:
        """Send a whole request as the windows let, in frames of up to 1 MiB."""
        self.send(opened(number, ("content-length", str(len(content)))))
        at = 0
        while at < len(content):
            await self.until(lambda _: self.window(number) > 0)
            size = min(self.window(number), 1 << 20, len(content) - at)
            self._sent[number] += size
            self.send(data(number, content[at : at + size], ends=at + size == len(content)))
            await self.writer.drain()
            at += size

    async def until(self, is_so: Callable[[list[Frame]], bool]) -> list[Frame]:
        """Read until what has come is so; fails at the end of the connection."""
        async with asyncio.timeout(SECONDS):
            while not is_so(self.frames):
                received = await self._reader.read(1 << 20)
                assert received, self.frames
                found, self._rest = split(self._rest + received)
                self.frames += found
        return self.frames

    async def response(self, number: int) -> bytes:
        """The content of a stream's response, whole."""
        got = await self.until(lambda got: any(e.ends and e.stream == number for e in got))
        return b"".join(e.payload for e in got if (e.kind, e.stream) == (Kind.DATA, number))

    async def reset(self, number: int) -> Code:
        """Why a stream is reset."""
        got = await self.until(
            lambda got: any((e.kind, e.stream) == (Kind.RST_STREAM, number) for e in got)
        )
        return Code([e.code for e in got if (e.kind, e.stream) == (Kind.RST_STREAM, number)][-1])

    async def end(self) -> list[Code]:
        """The codes of each GOAWAY until the end of the connection."""
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                while received := await self._reader.read(1 << 20):
                    found, self._rest = split(self._rest + received)
                    self.frames += found
        return [Code(each.code) for each in self.frames if each.kind == Kind.GOAWAY]


@dataclass
class Site:
    """A server, its state, its handler, and a way to it."""

    port: int
    state: Server
    handler: Handler
    tls: ssl.SSLContext | None

    @asynccontextmanager
    async def caller(self, *first: bytes) -> AsyncIterator[Caller]:
        name = None if self.tls is None else "localhost"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.tls, server_hostname=name, limit=1 << 22
        )
        caller = Caller(reader, writer)
        caller.send(*(first or (HELLO, WIDE)))
        try:
            yield caller
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    until = staticmethod(until)


@asynccontextmanager
async def serving(
    handler: Handler | None = None,
    *,
    encrypted: bool = False,
    session: SessionLimits | None = None,
    **limits: Any,
) -> AsyncIterator[Site]:
    """A server on a port; behind it no connection, stream or task is left."""
    handler = handler or Handler()
    http2 = HTTP2([handler], session)
    async with http1_site.serving(
        one, ConnectionLimits(**{**SHORT, **limits}), other=http2, encrypted=encrypted
    ) as server:
        if server.callers is not None:
            server.callers.set_alpn_protocols(["h2"])
        yield Site(server.address[1], server.state, handler, server.callers)
