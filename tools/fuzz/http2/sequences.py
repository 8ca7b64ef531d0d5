"""Sequences of HTTP/2's frames, put together of frames that are made once, some of them mutated."""

from __future__ import annotations

import random
import struct
from itertools import chain, zip_longest

import hpack

from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PADDED,
    PREFACE,
    PRIORITIZED,
    Kind,
)

_NUMBERS = (1, 1, 1, 3, 3, 5, 7, 9, 0, 2, 101)
_CALL = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")]
#: Heads of requests, and others.
_HEADS = [
    [*_CALL, ("te", "trailers")],
    [*_CALL, ("content-length", "5")],
    [*_CALL, ("x", "y" * 50)],
    [("a", "b")],
    [("grpc-status", "0"), ("B", "c")],
]
_REQUESTS = 3
#: The most requests of a sequence, ways to frame each, and frames of any kind.
_MOST, _FRAMINGS, _FRAMES = 5, 8, 2000
#: Rows of heads that one encoder has written, each with the table of those before it.
_ROWS = 50
#: How many requests a sequence has, and how many frames of any kind beside them.
_COUNTS, _OTHERS = (1, 1, 2, 2, 3, _MOST), (0, 0, 1, 3)
_BEGIN = (PREFACE, frames.frame(Kind.SETTINGS, 0, 0))


class Sequences:
    """What sequences are drawn from; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"{seed} frames")
        #: In each row the requests of a sequence, each as often as there are ways to frame it.
        self._rows: list[list[list[list[bytes]]]] = []
        self._frames: list[bytes] = []
        for _ in range(_ROWS):
            encoder, row = hpack.Encoder(), []
            for number in range(1, 2 * _MOST, 2):
                block = encoder.encode(rng.choice(_HEADS[:_REQUESTS]), huffman=rng.random() < 0.5)
                row.append([_request(rng, number, block) for _ in range(_FRAMINGS)])
            self._rows.append(row)
            self._frames += [_frame(rng, encoder) for _ in range(_FRAMES // _ROWS)]

    def draw(self, rng: random.Random) -> bytes:
        """Frames in an order that may be lawful, of which some are mutated."""
        chance = rng.random
        row = self._rows[int(chance() * _ROWS)]
        count = _COUNTS[int(chance() * len(_COUNTS))]
        requests = [framings[int(chance() * _FRAMINGS)] for framings in row[:count]]
        parts = [*_BEGIN, *(chain(*requests) if chance() < 0.7 else _by_turns(requests))]
        for _ in range(_OTHERS[int(chance() * len(_OTHERS))]):
            other = self._frames[int(chance() * len(self._frames))]
            parts.insert(2 + int(chance() * (len(parts) - 1)), other)
        if chance() < 0.4:
            _mutate(rng, parts)
        return b"".join(parts)


def _by_turns(requests: list[list[bytes]]) -> list[bytes]:
    """The heads of all requests, then their bodies frame by frame."""
    bodies = zip_longest(*(request[1:] for request in requests), fillvalue=b"")
    return [*(request[0] for request in requests), *chain(*bodies)]


def _request(rng: random.Random, number: int, block: bytes) -> list[bytes]:
    """A lawful request, its head in one piece."""
    body = b"12345" if rng.random() < 0.7 else b""
    ends = END_STREAM if not body and rng.random() < 0.5 else 0
    if rng.random() < 0.3:
        cut = rng.randrange(len(block))
        first = frames.frame(Kind.HEADERS, ends, number, block[:cut])
        made = [first + frames.frame(Kind.CONTINUATION, END_HEADERS, number, block[cut:])]
    else:
        made = [frames.frame(Kind.HEADERS, END_HEADERS | ends, number, block)]
    if not ends:
        middle = rng.randrange(len(body) + 1)
        made.append(frames.frame(Kind.DATA, 0, number, body[:middle]))
        made.append(frames.frame(Kind.DATA, END_STREAM, number, body[middle:]))
    return made


def _frame(rng: random.Random, encoder: hpack.Encoder) -> bytes:
    """A frame of any kind on any stream."""
    number = rng.choice(_NUMBERS)
    kind = rng.choice([*Kind, *Kind, 77])
    flags = rng.choice([0, 0, END_STREAM, END_HEADERS, END_HEADERS | END_STREAM])
    flags |= rng.choice([0, 0, 0, PADDED, PRIORITIZED])
    match kind:
        case Kind.HEADERS | Kind.CONTINUATION:
            block = encoder.encode(rng.choice(_HEADS))
            if rng.random() < 0.1:  # another size of the table, or too large a one
                block = rng.choice([b"\x20", b"\x3f\xe1\x1f", b"\x3f\xe2\x1f"]) + block
            if flags & PRIORITIZED:
                block = struct.pack(">IB", rng.choice([0, 3]), 5) + block
            payload = bytes([rng.choice([0, 1, 200])]) + block if flags & PADDED else block
            flags |= END_HEADERS if rng.random() < 0.8 else 0
        case Kind.SETTINGS:
            number = rng.choice([0, 0, 0, number])
            values = [0, 1, 2, 65535, 20_000, 1 << 31]
            pairs = [(rng.randrange(1, 9), rng.choice(values)) for _ in range(rng.randrange(3))]
            payload = b"".join(struct.pack(">HI", *pair) for pair in pairs)
            flags = rng.choice([0, 0, ACK])
        case Kind.WINDOW_UPDATE:
            payload = struct.pack(">I", rng.choice([0, 1, 1000, (1 << 31) - 1, (1 << 31) - 65536]))
        case Kind.PING:
            number, payload = rng.choice([0, 0, number]), bytes(8)
        case Kind.RST_STREAM | Kind.PRIORITY | Kind.GOAWAY:
            payload = bytes({Kind.RST_STREAM: 4, Kind.PRIORITY: 5, Kind.GOAWAY: 8}[kind])
            number = 0 if kind is Kind.GOAWAY else number
        case _:
            payload = rng.randbytes(rng.choice([0, 1, 5, 300, 300, 16384]))
    if rng.random() < 0.1:
        payload = payload[: rng.randrange(len(payload) + 1)]
    return frames.frame(kind, flags, number, payload)


def _mutate(rng: random.Random, parts: list[bytes]) -> None:
    """Swap, repeat, drop or damage some frames."""
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(1, len(parts))
        match rng.randrange(5):
            case 0:
                other = rng.randrange(1, len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 1:
                parts.insert(at, parts[at])
            case 2 if len(parts) > 2:
                parts.pop(at)
            case 3 if parts[at]:
                damaged = bytearray(parts[at])
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                parts[at] = bytes(damaged)
            case _:
                parts[at] = parts[at][: rng.randrange(len(parts[at]) + 1)]
