"""Connections that send the same again and again, as fast as a service lets them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: Bytes that are given to a socket at once.
PIECE_BYTES = 64 << 10


@dataclass(frozen=True)
class Flood:
    """What each connection sends: once at first, and then for ever. It reads all that comes."""

    unit: bytes
    opening: bytes = b""

    def run(self, connect: Callable[[], socket.socket], count: int, tally: Tally) -> None:
        """Keep so many connections going until told to stop; a closed one is opened again."""
        piece = memoryview(self.unit * max(1, PIECE_BYTES // len(self.unit)))
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as open_:

            def begin() -> None:
                sock = open_.enter_context(connect())
                sock.sendall(self.opening)
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [piece])

            for _ in range(count):
                begin()
            while not tally.stop.is_set():
                for key, events in selector.select(0.1):
                    sock, rest = key.fileobj, key.data
                    assert isinstance(sock, socket.socket)
                    try:
                        if events & selectors.EVENT_READ and not sock.recv(1 << 18):
                            raise ConnectionError
                        if events & selectors.EVENT_WRITE:
                            sent = sock.send(rest[0])
                            tally.sent += sent
                            rest[0] = rest[0][sent:] or piece
                    except BlockingIOError:
                        pass
                    except ConnectionError:
                        tally.closed += 1
                        selector.unregister(sock)
                        sock.close()
                        begin()


@dataclass
class Tally:
    """What a flood has sent, in bytes, and how many of its connections were closed."""

    sent: int = 0
    closed: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def flooded(connect: Callable[[], socket.socket], flood: Flood, count: int) -> Iterator[Tally]:
    """A flood on so many connections that has begun, from a thread of its own."""
    tally = Tally()
    thread = threading.Thread(target=flood.run, args=(connect, count, tally), daemon=True)
    thread.start()
    try:
        yield tally
    finally:
        tally.stop.set()
        thread.join(30)
        assert not thread.is_alive()
