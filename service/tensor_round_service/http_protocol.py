"""uvicorn's HTTP protocol, with a way around its buffers for tensors.

uvicorn hands a body on in pieces of some 64 KiB and copies each twice. Here a body of
known length goes from the socket into the memory that the request's own lease gave:
after the head of a large request reading is paused; when the application asks
(:meth:`~.direct.DirectExchange.receive_into`), the transport gets a protocol that does
nothing but fill that memory, and hands the connection back when it is full. An answer
is written as it lies there, head and small body in one system call. Everything else,
from header fields to keep-alive, stays uvicorn's.

What this leans on of uvicorn's insides is held by ``tests/service/test_uvicorn_guard.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from .direct import EXTENSION, Header, SenderGone

#: From this size on a body is worth a change of protocol, and an answer a write of its own.
LARGE_BYTES = 64 << 10

_LENGTH = b"content-length"


class DirectHttpProtocol(HttpToolsProtocol):
    """One connection; uvicorn's ``http=`` extension point."""

    #: Bytes of the current body that came through the parser.
    fed: int

    def on_headers_complete(self) -> None:
        """Offer the request its direct way; stop reading before a large body."""
        self.fed = 0
        # The parser has checked that a length is digits, and the only one.
        length = next((int(value) for name, value in self.headers if name == _LENGTH), None)
        exchange = _Exchange(self, length)
        extensions: dict[str, Any] = {EXTENSION: exchange}
        self.scope["extensions"] = extensions
        super().on_headers_complete()
        exchange.cycle = self.cycle
        if length is not None and length >= LARGE_BYTES:
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Count what came through the parser."""
        self.fed += len(body)
        super().on_body(body)

    def take_back(self) -> None:
        """Have the connection again, after a body that the parser never saw the end of."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.transport.set_protocol(self)


class _Exchange:
    """One request's :class:`~.direct.DirectExchange`."""

    def __init__(self, protocol: DirectHttpProtocol, length: int | None) -> None:
        self._protocol = protocol
        self._length = length
        self.cycle: RequestResponseCycle

    @property
    def remaining(self) -> int | None:
        if self._length is None:
            return None
        return self._length - self._protocol.fed + len(self.cycle.body)

    async def receive_into(self, target: memoryview) -> None:
        cycle, protocol = self.cycle, self._protocol
        early = len(cycle.body)
        target[:early] = cycle.body
        cycle.body = bytearray()
        if early < len(target):
            if cycle.disconnected:
                raise SenderGone
            if cycle.waiting_for_100_continue:
                cycle.waiting_for_100_continue = False
                protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            # A transport may change its protocol only while it does not read.
            protocol.flow.pause_reading()
            filling = _Filling(protocol, target[early:])
            protocol.transport.set_protocol(filling)
            protocol.flow.resume_reading()
            await filling.full
        cycle.more_body = False

    async def respond(
        self, status: int, headers: Sequence[Header], parts: Sequence[bytes | memoryview]
    ) -> None:
        cycle, transport, flow = self.cycle, self._protocol.transport, self._protocol.flow
        if flow.write_paused and not cycle.disconnected:
            await flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        head = self._head(status, headers)
        if sum(map(len, parts)) < LARGE_BYTES:
            transport.write(b"".join((head, *parts)))
        else:
            # No byte may wait in memory that the next request may be given.
            transport.set_write_buffer_limits(high=0)
            transport.write(head)
            for part in parts:
                transport.write(part)
            await flow.drain()
            if cycle.disconnected:
                return
            transport.set_write_buffer_limits()
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            transport.close()
        cycle.on_response()

    def _head(self, status: int, headers: Sequence[Header]) -> bytes:
        lines = [STATUS_LINE[status]]
        for name, value in (*self.cycle.default_headers, *headers):
            lines += (name, b": ", value, b"\r\n")
        lines.append(b"\r\n" if self.cycle.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(lines)


class _Filling(asyncio.BufferedProtocol):
    """Has the transport while one body comes in."""

    def __init__(self, protocol: DirectHttpProtocol, target: memoryview) -> None:
        self._protocol = protocol
        self._target = target
        self._filled = 0
        self.full: asyncio.Future[None] = protocol.loop.create_future()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; never beyond the body's end."""
        return self._target[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count them; hand the connection back after the last."""
        self._filled += nbytes
        if self._filled == len(self._target):
            transport = self._protocol.transport
            transport.pause_reading()
            self._protocol.take_back()
            transport.resume_reading()
            if not self.full.done():
                self.full.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell both who waits for the body and who owns the connection."""
        if not self.full.done():
            self.full.set_exception(SenderGone())
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.resume_writing()
