"""uvicorn's HTTP protocol, with a way around its buffers for large bodies.

uvicorn hands a body on in pieces of some 64 KiB and copies each twice. Here a large
body of known length goes from the socket into the memory that the request's own
lease gave: once the head is read, reading is paused; when the application asks
(:meth:`~.direct.DirectBody.receive_into`), the transport gets a protocol that does nothing but
fill that memory, and hands the connection back when it is full. Everything else,
from header fields to keep-alive and the response, stays uvicorn's.

What this leans on of uvicorn's insides is named in ``tests/service/test_uvicorn_guard.py``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .direct import EXTENSION, SenderGone

#: Bodies from this size on are worth the two changes of protocol.
DIRECT_BYTES = 64 << 10


class DirectHttpProtocol(HttpToolsProtocol):
    """One connection; uvicorn's ``http=`` extension point."""

    _length: int | None
    _fed: int

    def on_message_begin(self) -> None:
        """Begin to count a new request."""
        super().on_message_begin()
        self._length = None
        self._fed = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note the body's length on the way."""
        super().on_header(name, value)
        if name.lower() == b"content-length":
            # The parser has checked that it is digits, and the only one.
            self._length = int(value)

    def on_headers_complete(self) -> None:
        """Stop reading before a large body, until the application says where it shall go."""
        if self._length is None or self._length < DIRECT_BYTES:
            super().on_headers_complete()
            return
        direct = _DirectBody(self, self._length)
        extensions: dict[str, Any] = {EXTENSION: direct}
        self.scope["extensions"] = extensions
        super().on_headers_complete()
        direct.cycle = self.cycle
        self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Count what came through the parser."""
        self._fed += len(body)
        super().on_body(body)

    def take_back(self) -> None:
        """Have the connection again, after a body that the parser never saw the end of."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.transport.set_protocol(self)

    @property
    def fed(self) -> int:
        """Bytes of the current body that came through the parser."""
        return self._fed


class _DirectBody:
    """One request's :class:`~.direct.DirectBody`."""

    def __init__(self, protocol: DirectHttpProtocol, length: int) -> None:
        self._protocol = protocol
        self._length = length
        self.cycle: RequestResponseCycle

    @property
    def remaining(self) -> int:
        """Bytes of the body that the application has not had yet."""
        return self._length - self._protocol.fed + len(self.cycle.body)

    async def receive_into(self, target: memoryview) -> None:
        """Receive all that remains; ``target`` has just that size. Raises :class:`SenderGone`."""
        cycle, protocol = self.cycle, self._protocol
        if cycle.disconnected:
            raise SenderGone
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # A transport may change its protocol only while it does not read; after a
        # pipelined request it may be reading again.
        protocol.flow.pause_reading()
        early = len(cycle.body)
        target[:early] = cycle.body
        cycle.body = bytearray()
        if early < len(target):
            filling = _Filling(protocol, target[early:])
            protocol.transport.set_protocol(filling)
            protocol.flow.resume_reading()
            await filling.full
        else:
            protocol.flow.resume_reading()
        cycle.more_body = False

    def begin_unbuffered(self) -> None:
        """Make sending wait until the kernel has taken every byte."""
        self._protocol.transport.set_write_buffer_limits(high=0)

    def end_unbuffered(self) -> None:
        """Let small writes be gathered again."""
        if not self.cycle.disconnected:
            self._protocol.transport.set_write_buffer_limits()


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
