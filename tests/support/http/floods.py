"""Connections that send the same again and again, as fast as a service lets them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from support.http.http2_frames import HELLO, block, call_fields, data
from support.http.native_form import message, tensor
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import END_HEADERS, END_STREAM, Kind

#: Bytes that are given to a socket at once.
PIECE_BYTES = 64 << 10


@dataclass(frozen=True)
class Flood:
    """What each connection sends: once at first, and then for ever.

    It reads all that comes, unless it ``is_deaf``. With ``again`` it is opened anew after what it
    has read first.
    """

    unit: bytes
    opening: bytes = b""
    is_deaf: bool = False
    again: bool = False

    def run(self, connect: Callable[[], socket.socket], count: int, tally: Tally) -> None:
        """Keep so many connections going until told to stop; a closed one is opened again."""
        piece = memoryview(self.unit * max(1, PIECE_BYTES // len(self.unit)) if self.unit else b"")
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
            stack.callback(lambda: [_close(key) for key in selector.get_map().values()])

            def begin() -> None:
                sock = connect()
                sock.sendall(self.opening)
                tally.sent += len(self.opening)
                sock.setblocking(False)
                events = (0 if self.is_deaf else selectors.EVENT_READ) | (
                    selectors.EVENT_WRITE if piece else 0
                )
                if events:
                    selector.register(sock, events, [piece])
                else:
                    stack.enter_context(sock)

            for _ in range(count):
                begin()
            while not tally.stop.is_set():
                for key, events in selector.select(0.1):
                    sock, rest = key.fileobj, key.data
                    assert isinstance(sock, socket.socket)
                    try:
                        if events & selectors.EVENT_READ and (not sock.recv(1 << 18) or self.again):
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


def _close(key: selectors.SelectorKey) -> None:
    assert isinstance(key.fileobj, socket.socket)
    key.fileobj.close()


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


KEY = "a-key-of-the-tests"
X = tensor(1 << 10)


def get(path: str, host: str = "x") -> bytes:
    """A request without a key."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def rounded(x: np.ndarray) -> bytes:
    """A request with one, to round float32."""
    return message(x, more=f"X-API-Key: {KEY}\r\n")


def described(descriptor: str, payload: bytes) -> bytes:
    """The same with another descriptor."""
    head = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n"
        f"Content-Length: {len(payload)}\r\nOperator-Descriptor: {descriptor}\r\n\r\n"
    )
    return head.encode() + payload


def calls(path: str, content: bytes = bytes(5), *, ends: bool = False, count: int = 1000) -> bytes:
    """Calls of a method, with a key, on the first numbers of a connection; no content if it ends.

    A message of no bytes has 5.
    """
    head = block([*call_fields(path), ("x-api-key", KEY)])
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return b"".join(
        frames.frame(Kind.HEADERS, flags, number, head)
        + (b"" if ends else data(number, content, ends=True))
        for number in range(1, 2 * count, 2)
    )


_CHUNKED = rounded(X).partition(b"\r\n\r\n")[0].replace(
    b"Content-Length: 1024", b"Transfer-Encoding: chunked"
) + b"\r\n\r\n".join([b"", b"".join(b"1\r\n%c\r\n" % byte for byte in X.tobytes()) + b"0", b""])

#: What costs callers least, of all kinds that a service answers at once.
FLOODS: dict[str, Flood] = {
    "no key": Flood(get("/x")),
    "a wrong host": Flood(get("/x", "evil.example")),
    "rounds of 4 bytes": Flood(rounded(X[:1])),
    "refused descriptors": Flood(rounded(X[:1]).replace(b"float32", b"float33")),
    "health": Flood(get("/livez")),
    "no HTTP": Flood(b"\0\r\n\r\n"),
    "chunks of a byte": Flood(_CHUNKED),
    "gRPC health": Flood(calls("/grpc.health.v1.Health/Check", count=1 << 15), HELLO),
    "gRPC heads alone": Flood(calls("/a.Service/Method", ends=True, count=1 << 15), HELLO),
    "PING": Flood(frames.frame(Kind.PING, 0, 0, bytes(8)), HELLO),
    "SETTINGS": Flood(frames.settings({}), HELLO),
}
