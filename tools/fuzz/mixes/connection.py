"""Sockets, plain or over TLS, whose every write and every end is the caller's own.

asyncio's transports drop unread data when a write fails, and end TLS in one way alone; here every
received byte is read, and TCP may end without close_notify.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from typing import Self

from .messages import Fault, ResponseReader
from .scripts import End, Script, Wait, Write

#: SO_LINGER that makes close send a reset at once.
RESET = struct.pack("ii", 1, 0)


class PlainSocket:
    """A TCP connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def to(cls, port: int, receive_buffer: int | None = None) -> Self:
        """Connect; a small buffer is for slow readers."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        return cls(sock)

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        await self._loop.sock_sendall(self._socket, data)

    async def receive(self, most: int) -> bytes:
        """Received bytes; none at the end."""
        return await self._loop.sock_recv(self._socket, most)

    async def shut_down(self, *, notify: bool = True) -> None:
        """Half-close."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        """Close; with ``reset``, by a reset."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._socket.close()


class TlsSocket(PlainSocket):
    """A TLS connection."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    async def handshake(self, context: ssl.SSLContext) -> None:
        """Perform TLS's handshake."""
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._more()
            else:
                await self._flush()
                return

    async def send(self, data: bytes) -> None:
        """Send all of it, in one record or more."""
        if data:
            self._tls.write(data)
        await self._flush()

    async def receive(self, most: int) -> bytes:
        """Received bytes; none at the end, with close_notify or without."""
        while True:
            try:
                return self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._more()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def shut_down(self, *, notify: bool = True) -> None:
        """Send close_notify, or half-close TCP without it."""
        if not notify:
            await super().shut_down()
            return
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        with contextlib.suppress(OSError):
            await self._flush()

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await super().send(data)

    async def _more(self) -> None:
        if data := await super().receive(1 << 18):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def connect(
    port: int, context: ssl.SSLContext | None, receive_buffer: int | None = None
) -> PlainSocket:
    """A connection that is ready for requests."""
    if context is None:
        return await PlainSocket.to(port, receive_buffer)
    sock = await TlsSocket.to(port, receive_buffer)
    try:
        await sock.handshake(context)
    except BaseException:
        sock.close()
        raise
    return sock


#: Seconds in which a response must come, and a connection must end.
TIMEOUT = 10.0
_RECEIVE_BYTES = 1 << 18
_SLOW_BUFFER = 16 << 10
#: How long a slow reader is slow: what the kernel has of a response counts as sent, and from then
#: on the service keeps the connection for its idle timeout alone.
_SLOW_SECONDS = 1.0


class ScriptedConnection:
    """A script on its connection."""

    def __init__(self, script: Script, sock: PlainSocket) -> None:
        self._script, self._socket = script, sock
        self.reader = ResponseReader(
            script.requests,
            incomplete=not script.end.owes_responses,
            half_closed=script.end is End.HALF_CLOSE,
        )
        self._changed = asyncio.Event()
        self._sent = self._over = False
        self._last_progress = 0.0

    async def play(self) -> None:
        """Raise :class:`Fault` where the service breaks a rule."""
        self._last_progress = asyncio.get_running_loop().time()
        sending = asyncio.create_task(self._send())
        try:
            if self._script.end in (End.CLOSE, End.RESET):
                await self._receive_all_until(sending)
            else:
                await self._receive_all()
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ssl.SSLError):
                await sending
            self._socket.close(reset=self._script.end is End.RESET)

    async def _receive_all_until(self, sending: asyncio.Task[None]) -> None:
        receiving = asyncio.create_task(self._receive_all())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                await receiving
        finally:
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiving

    async def _receive_all(self) -> None:
        """To the end of the connection."""
        most, pause = self._script.reads
        is_slow = pause > 0
        began = self._last_progress
        while data := await self._receive(most if is_slow else _RECEIVE_BYTES):
            self.reader.feed(data)
            self._changed.set()
            if is_slow:
                is_slow = self._last_progress < began + _SLOW_SECONDS
                await asyncio.sleep(pause)
        self._over = True
        self._changed.set()
        if self._script.end.owes_responses and self.reader.owed:
            raise Fault("cut off", f"the connection ended before {self.reader.missing()}")

    async def _receive(self, most: int) -> bytes:
        """The next bytes, in time."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._last_progress + TIMEOUT):
                    data = await self._socket.receive(most)
                self._last_progress = loop.time()
                return data
            except TimeoutError:
                if loop.time() < self._last_progress + TIMEOUT:
                    continue  # something was sent meanwhile
            except ssl.SSLError as error:
                raise Fault("TLS", f"{error}") from None
            except OSError:
                return b""
            if (self._script.end.owes_responses or not self._sent) and self.reader.owed:
                missing = self.reader.missing()
                raise Fault("no response", f"nothing came for {TIMEOUT:.0f} s of {missing}")
            raise Fault("not ended", f"the connection did not end within {TIMEOUT:.0f} s")

    async def _send(self) -> None:
        for step in self._script.steps:
            if isinstance(step, Write):
                await self._write(step)
            else:
                await self._wait(step)
        self._sent = True
        await self._end()

    async def _write(self, step: Write) -> None:
        with contextlib.suppress(OSError):  # responses are read in any case
            await self._socket.send(step.data)
        self._last_progress = asyncio.get_running_loop().time()
        await asyncio.sleep(step.pause)

    async def _wait(self, step: Wait) -> None:
        reader = self.reader
        needed = step.responses + step.or_continue
        while reader.complete < needed and not (self._over or reader.closed):
            if step.or_continue and reader.complete == step.responses and reader.continued:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _end(self) -> None:
        end, number = self._script.end, self._script.number
        if end is End.HALF_CLOSE:
            await self._socket.shut_down()
        elif end is End.WITHIN:
            await self._socket.shut_down(notify=number % 4 < 2)
        elif end is End.HALF_CLOSE_LATER:
            await self._wait(Wait(len(self._script.requests)))
            await self._socket.shut_down()
        elif end in (End.CLOSE, End.RESET):
            await asyncio.sleep((0.0, 0.001, 0.02)[number % 3])


async def play(script: Script, port: int, context: ssl.SSLContext | None) -> list[int]:
    """The statuses of the responses; raises :class:`Fault`."""
    slow = script.reads[1] > 0
    sock = await connect(port, context, _SLOW_BUFFER if slow else None)
    connection = ScriptedConnection(script, sock)
    await connection.play()
    return connection.reader.statuses
