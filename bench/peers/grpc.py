"""Inference over gRPC from one blocking socket: HTTP/2 frames around bytes that are made before.

As :mod:`..measuring.client` for HTTP/1.1: no library, and responses are received into memory that
is already there. It sends as much as the server's windows allow, and opens its own wide.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..measuring.client import Address, Arena, Refused, connected

# Frames, their flags, and settings: RFC 9113, sections 6 and 6.5.2.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
INITIAL_WINDOW, MAX_FRAME = 4, 5
FIRST_WINDOW, LARGEST_WINDOW = (1 << 16) - 1, (1 << 31) - 1
FIRST_FRAME, LARGEST_FRAME = 1 << 14, (1 << 24) - 1
HEAD_BYTES = 9

#: What comes with the heads of frames is received here, and copied.
BUFFER_BYTES = 128 << 10
#: Up to this size a message goes out with its head.
ONE_PIECE_BYTES = 16 << 10
#: Frames of DATA in one system call; the system takes 1,024 pieces.
FRAMES_AT_ONCE = 256
#: After so many bytes the server may send as many again.
GRANTED_BYTES = 1 << 29


def frame_head(kind: int, flags: int, stream: int, length: int) -> bytes:
    return struct.pack(">HBBBI", length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frame_head(kind, flags, stream, len(payload)) + payload


def kept(name: bytes, value: bytes) -> bytes:
    """A field of a header block that goes into the table of the connection (RFC 7541, 6.2.1)."""
    return bytes((0x40, len(name))) + name + bytes((len(value),)) + value


#: The first two are ``POST`` and ``http`` in the static table, which ends with 61.
FIRST_HEAD = b"\x83\x86" + b"".join(
    (
        kept(b":path", b"/inference.GRPCInferenceService/ModelInfer"),
        kept(b":authority", b"127.0.0.1"),
        kept(b"te", b"trailers"),
        kept(b"content-type", b"application/grpc"),
    )
)
#: The same as every further call of a connection sends it: the newest field has index 62.
NEXT_HEAD = bytes((0x83, 0x86, *(0x80 | index for index in (65, 64, 63, 62))))
OWN_SETTINGS = struct.pack(">HIHI", INITIAL_WINDOW, LARGEST_WINDOW, MAX_FRAME, LARGEST_FRAME)
OPENING = b"".join(
    (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        frame(SETTINGS, 0, 0, OWN_SETTINGS),
        frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - FIRST_WINDOW)),
    )
)


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def member(number: int, content: bytes) -> bytes:
    """A member of a Protocol Buffers message that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def message_head(nbytes: int) -> bytes:
    """A ``ModelInferRequest`` of a float32 tensor with gRPC's prefix, up to the tensor's bytes."""
    tensor = member(1, b"X") + member(2, b"FP32") + member(3, varint(nbytes // 4))
    head = member(1, b"round") + member(5, tensor) + varint(7 << 3 | 2) + varint(nbytes)
    return struct.pack(">BI", 0, len(head) + nbytes) + head


@contextmanager
def over_grpc(address: Address, arena: Arena, nbytes: int, streams: int = 1) -> Iterator[Calls]:
    """Calls over one kept connection, always with the same message; a tensor ends each response."""
    room = len(arena.response) // streams
    memory = memoryview(arena.response)
    calls = Calls(
        address,
        arena.request(message_head(nbytes), nbytes),
        [memory[room * place :][:room] for place in range(streams)],
    )
    try:
        yield calls
    finally:
        calls.close()


@dataclass(slots=True)
class Stream:
    """A call that is not over."""

    place: int
    #: How many more bytes the server takes.
    window: int
    #: How many bytes of the response have come.
    got: int = 0


class Calls:
    """Calls over one connection; those under way at once are answered in places of their own."""

    def __init__(self, address: Address, message: memoryview, places: Sequence[memoryview]) -> None:
        self._message = message
        self._places = places
        self._lengths = [0] * len(places)
        self._socket = connected(address)
        # A timeout makes every call a poll and a call.
        self._socket.settimeout(None)
        self._socket.sendall(OPENING)
        self._buffer = bytearray(BUFFER_BYTES)
        self._unread = memoryview(self._buffer)
        self._begin = self._end = 0
        self._last_stream = -1
        self._head = FIRST_HEAD
        self._open: dict[int, Stream] = {}
        self._over: deque[Stream] = deque()
        #: What the server takes: of all streams, of each at first, in a frame.
        self._window = self._first_window = FIRST_WINDOW
        self._max_frame = FIRST_FRAME
        self._since_grant = 0

    def __call__(self) -> memoryview:
        """Ask once; the message of the response with its prefix. Raises :class:`Refused`."""
        self.begin(0)
        return self.response(self.finish())

    def begin(self, place: int) -> None:
        """Send a request that is to be answered in this place."""
        self._last_stream += 2
        number = self._last_stream
        stream = self._open[number] = Stream(place, self._first_window)
        head = frame(HEADERS, END_HEADERS, number, self._head)
        self._head = NEXT_HEAD
        length = len(self._message)
        if length <= min(ONE_PIECE_BYTES, self._window, stream.window):
            self._window -= length
            data = frame_head(DATA, END_STREAM, number, length)
            self._socket.sendall(b"".join((head, data, self._message)))
        else:
            self._socket.sendall(head)
            self._send(number, stream)

    def finish(self) -> int:
        """The place of the next call that is over. Raises :class:`Refused`."""
        while not self._over:
            self._receive()
        if self._since_grant > GRANTED_BYTES:
            grant = struct.pack(">I", self._since_grant)
            self._socket.sendall(frame(WINDOW_UPDATE, 0, 0, grant))
            self._since_grant = 0
        stream = self._over.popleft()
        if not stream.got:
            raise Refused("a call over gRPC was refused")
        self._lengths[stream.place] = stream.got
        return stream.place

    def response(self, place: int) -> memoryview:
        """What came there; it stands until the next request for it."""
        return self._places[place][: self._lengths[place]]

    def close(self) -> None:
        self._socket.close()

    def _send(self, number: int, stream: Stream) -> None:
        """Send the message as the windows allow."""
        at, end = 0, len(self._message)
        while at < end and number in self._open:
            stop = min(end, at + self._window, at + stream.window)
            if stop <= at:
                self._receive()
                continue
            pieces: list[bytes | memoryview] = []
            while at < stop and len(pieces) < 2 * FRAMES_AT_ONCE:
                size = min(self._max_frame, stop - at)
                flags = END_STREAM if at + size == end else 0
                pieces.append(frame_head(DATA, flags, number, size))
                pieces.append(self._message[at : at + size])
                self._window -= size
                stream.window -= size
                at += size
            self._send_pieces(pieces)

    def _send_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        sent = self._socket.sendmsg(pieces)
        for piece in pieces:
            if sent < len(piece):
                self._socket.sendall(piece[sent:])
            sent = max(0, sent - len(piece))

    def _receive(self) -> None:
        """Receive what is there, and use its frames."""
        self._begin, self._end = 0, self._received(self._unread)
        while self._begin < self._end:
            self._fill(HEAD_BYTES)
            high, low, kind, flags, number = struct.unpack_from(">HBBBI", self._buffer, self._begin)
            self._begin += HEAD_BYTES
            length = high << 8 | low
            if kind == DATA:
                self._take(self._open[number], length)
            else:
                self._fill(length)
                payload = bytes(self._unread[self._begin : self._begin + length])
                self._begin += length
                self._control(kind, flags, number, payload)
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self._over.append(self._open.pop(number))

    def _fill(self, count: int) -> None:
        """Have so many bytes in the buffer."""
        if self._end - self._begin >= count:
            return
        left = self._buffer[self._begin : self._end]
        self._buffer[: len(left)] = left
        self._begin, self._end = 0, len(left)
        while self._end < count:
            self._end += self._received(self._unread[self._end :])

    def _take(self, stream: Stream, length: int) -> None:
        """Bring a frame of DATA to its place: most of a large one is received there."""
        self._since_grant += length
        place = self._places[stream.place]
        count = min(length, self._end - self._begin)
        end = stream.got + length
        place[stream.got : stream.got + count] = self._unread[self._begin : self._begin + count]
        self._begin += count
        stream.got += count
        while stream.got < end:
            stream.got += self._received(place[stream.got : end])

    def _control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._widen(number, int.from_bytes(payload, "big"))
        elif kind == SETTINGS and not flags & ACK:
            for setting, value in struct.iter_unpack(">HI", payload):
                self._set(setting, value)
            self._socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY or (kind == RST_STREAM and number in self._open):
            raise Refused(f"a frame of kind {kind} ends the call: {payload!r}")

    def _widen(self, number: int, more: int) -> None:
        if not number:
            self._window += more
        elif stream := self._open.get(number):
            stream.window += more

    def _set(self, setting: int, value: int) -> None:
        if setting == MAX_FRAME:
            self._max_frame = value
        elif setting == INITIAL_WINDOW:
            for stream in self._open.values():
                stream.window += value - self._first_window
            self._first_window = value

    def _received(self, target: memoryview) -> int:
        count = self._socket.recv_into(target)
        if not count:
            raise ConnectionError("the server hung up")
        return count
