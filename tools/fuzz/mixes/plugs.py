"""A connection, plain or over TLS, whose every write and every end is the caller's own.

asyncio's transports forget what they have not handed out when a write fails, and end TLS in one
way alone; here every byte that came is read, and the socket may end under the encryption.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct

#: On close, send a reset at once.
_RESET = struct.pack("ii", 1, 0)


class Plug:
    """A plain connection."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def to(cls, port: int, receive_buffer: int | None = None) -> Plug:
        """Connect; a small buffer is for slow takers."""
        plug = socket.socket()
        plug.setblocking(False)
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", port))
        return cls(plug)

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        await self._loop.sock_sendall(self._plug, data)

    async def take(self, most: int) -> bytes:
        """What has come; nothing at the end."""
        return await self._loop.sock_recv(self._plug, most)

    async def end_sending(self, *, politely: bool = True) -> None:
        """End this side."""
        with contextlib.suppress(OSError):
            self._plug.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        """Hang up."""
        if reset:
            self._plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._plug.close()


class SecretPlug(Plug):
    """A connection over TLS."""

    def __init__(self, plug: socket.socket) -> None:
        super().__init__(plug)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    async def shake_hands(self, context: ssl.SSLContext) -> None:
        """Begin TLS."""
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

    async def take(self, most: int) -> bytes:
        """What has come; nothing at the end, with a farewell or without."""
        while True:
            try:
                return self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._more()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def end_sending(self, *, politely: bool = True) -> None:
        """Say farewell, or let the socket end under the encryption."""
        if not politely:
            await super().end_sending()
            return
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        with contextlib.suppress(OSError):
            await self._flush()

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await super().send(data)

    async def _more(self) -> None:
        if data := await super().take(1 << 18):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def plugged(
    port: int, context: ssl.SSLContext | None, receive_buffer: int | None = None
) -> Plug:
    """A connection that is ready for requests."""
    if context is None:
        return await Plug.to(port, receive_buffer)
    plug = await SecretPlug.to(port, receive_buffer)
    assert isinstance(plug, SecretPlug)
    try:
        await plug.shake_hands(context)
    except BaseException:
        plug.close()
        raise
    return plug
