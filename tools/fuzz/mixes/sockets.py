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
