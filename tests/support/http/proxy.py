"""A TCP proxy that misbehaves on purpose: cuts, delays, garbles, answers by itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_PIECE_BYTES = 64 << 10
#: Bytes kept of what each connection sent, for tests that look at requests.
_KEPT_BYTES = 64 << 10


@dataclass(frozen=True)
class Fault:
    """What is done to one connection; the default is nothing.

    ``up`` is towards the service, ``down`` towards the client. Cuts come after so many
    bytes of a direction; bytes at these offsets are garbled, in the bits of ``mask``.
    ``answer`` replaces the service's: it is sent once the request is whole (``early``:
    once its head is), and the connection closed.
    """

    cut_up: int | None = None
    cut_down: int | None = None
    reset: bool = False
    garble_up: frozenset[int] = frozenset()
    garble_down: frozenset[int] = frozenset()
    mask: int = 0x5A
    delay_up: float = 0.0
    delay_down: float = 0.0
    pieces_down: int = _PIECE_BYTES
    pause_down: float = 0.0
    answer: bytes | None = None
    early: bool = False


FAULTLESS = Fault()


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    """A whole response, after which the connection ends."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Seen:
    """What went through one connection."""

    up: bytearray = field(default_factory=bytearray)
    up_bytes: int = 0
    down_bytes: int = 0

    def headers(self) -> dict[str, str]:
        """The first request's headers, by name in lower case."""
        lines = bytes(self.up).partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}

    @property
    def request_line(self) -> str:
        """The first request's first line."""
        return bytes(self.up).partition(b"\r\n")[0].decode("latin-1")


class Proxy:
    """Stands between a client and the service at ``upstream``, a port or a path; a context manager.

    ``plan`` gives the fault of each connection by its number, from 0. ``tls`` is shown
    to the client; the service is spoken to in the clear. Without ``upstream`` every
    fault must have an answer.
    """

    def __init__(
        self,
        upstream: int | str | None,
        plan: Callable[[int], Fault] = lambda number: FAULTLESS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._upstream = upstream
        self._plan = plan
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self.seen: list[Seen] = []
        #: What was really done, in order, a garbled byte each.
        self.strikes: list[str] = []
        self.open_now = 0
        self.open_most = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}"

    def __enter__(self) -> Proxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._accepted, sock=self._listener, ssl=self._tls)
        )
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        # asyncio's tasks of connections that were accepted just now begin before the server is
        # closed: those that begin later, or never, leave their sockets open.
        self._loop.remove_reader(self._listener)
        await asyncio.sleep(0)
        self._server.close()
        # The connection's own task comes a few turns later.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        # The loop closes sockets in its next turn.
        await asyncio.sleep(0)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            writer.close()  # a task that is cancelled before it began has not

        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(end)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = Seen()
        self.seen.append(seen)
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        fault = self._plan(len(self.seen) - 1)
        try:
            with contextlib.suppress(OSError, ssl.SSLError, asyncio.CancelledError):
                if fault.answer is not None:
                    await self._answer(fault, seen, reader, writer)
                else:
                    await self._forward(fault, seen, reader, writer)
        finally:
            self.open_now -= 1
            await _hang_up(writer, reset=fault.reset)

    async def _answer(
        self, fault: Fault, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert fault.answer is not None
        self.strikes.append("answered")
        head = await reader.readuntil(b"\r\n\r\n")
        seen.up += head
        if not fault.early:
            left = int(seen.headers().get("content-length", "0"))
            while left and (piece := await reader.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                seen.up_bytes += len(piece)
        cut = len(fault.answer) if fault.cut_down is None else fault.cut_down
        await asyncio.sleep(fault.delay_down)
        for start in range(0, cut, fault.pieces_down):
            writer.write(fault.answer[start : min(cut, start + fault.pieces_down)])
            await writer.drain()
            await asyncio.sleep(fault.pause_down)
        if fault.early and not fault.reset:
            # As a good service does: half-close, and drop what still comes for a while.
            writer.write_eof()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while piece := await reader.read(_PIECE_BYTES):
                        seen.up_bytes += len(piece)

    async def _forward(
        self, fault: Fault, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if isinstance(self._upstream, str):
            far_reader, far_writer = await asyncio.open_unix_connection(self._upstream)
        else:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)

        async def up() -> None:
            await self._pause("delayed up", fault.delay_up)
            while piece := await reader.read(_PIECE_BYTES):
                piece = self._garbled(piece, seen.up_bytes, fault.garble_up, fault.mask, "up")
                left = None if fault.cut_up is None else fault.cut_up - seen.up_bytes
                piece = piece[:left]
                seen.up_bytes += len(piece)
                seen.up += piece[: _KEPT_BYTES - len(seen.up)]
                far_writer.write(piece)
                await far_writer.drain()
                if seen.up_bytes == fault.cut_up:
                    self.strikes.append("cut up")
                    return

        async def down() -> None:
            await self._pause("delayed down", fault.delay_down)
            while piece := await far_reader.read(fault.pieces_down):
                piece = self._garbled(piece, seen.down_bytes, fault.garble_down, fault.mask, "down")
                left = None if fault.cut_down is None else fault.cut_down - seen.down_bytes
                piece = piece[:left]
                seen.down_bytes += len(piece)
                writer.write(piece)
                await writer.drain()
                if seen.down_bytes == fault.cut_down:
                    self.strikes.append("cut down")
                    return
                await self._pause("throttled down", fault.pause_down)

        ways = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
        try:
            # Whichever way ends first ends both.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await _hang_up(far_writer, reset=False)
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pause(self, name: str, seconds: float) -> None:
        if seconds:
            self.strikes.append(name)
            await asyncio.sleep(seconds)

    def _garbled(
        self, piece: bytes, start: int, offsets: frozenset[int], mask: int, way: str
    ) -> bytes:
        hit = [offset - start for offset in offsets if start <= offset < start + len(piece)]
        if not hit:
            return piece
        changed = bytearray(piece)
        for position in hit:
            changed[position] ^= mask
            self.strikes.append(f"garbled {way}")
        return bytes(changed)


async def _hang_up(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        # No time to linger is how a reset is made.
        sock = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the client was first
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    writer.close()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        pass
    except asyncio.CancelledError:
        writer.transport.abort()  # else what is unsent would keep it open
        raise
