"""Sequences of HTTP/2's frames, mutated: one session, fed whole and in pieces, and the h2 package.

A session must raise nothing, keep its accounts, and say the same of a sequence however it is cut.
Where it serves what h2 refuses, or refuses what h2 serves, the reason must be one of those here.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack

from stress.report import Report
from tensor_round_service.http2 import frames
from tensor_round_service.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    PADDED,
    PREFACE,
    PRIORITIZED,
    Kind,
)
from tensor_round_service.http2.limits import Event, SessionLimits
from tensor_round_service.http2.session import Session
from tensor_round_service.http2.stream import Stream

#: Why h2 may refuse what is served here: another stream alone is reset, what a peer that has said
#: GOAWAY sends is served, settings and lengths that change nothing are ignored, no request needs an
#: authority, frames and bodies are judged when they are whole, and which of the streams with lower
#: numbers were open is forgotten.
THEIRS_ALONE = (
    "in state ConnectionState.CLOSED",
    "has invalid value",
    "Frame data missing or invalid",
    "Stream ID must be",
    "Expected 5 bytes, received",
    "is lower than",
    "does not have an :authority",
)
#: Why a connection may be ended here that h2 serves: by the head of a frame whose rest is yet to
#: come, as a stream's error (RFC 9113, section 5.4, lets it be the connection's), or by a rule that
#: h2 does not know.
OURS_ALONE = frozenset(
    {
        "a frame is longer than it may be",
        "a client does not push",
        "a header block is not finished",
        "a frame is on a stream that is not open",
        "DATA on a stream that is not open",
        "DATA behind the end of a stream",
        "DATA on a stream that is over",
        "more DATA than the connection's window",
        "more DATA than a stream's window",
        "a window overflows",
        "a window is updated by 0",
        "the first frame must be SETTINGS",
        "the number of a stream must be odd",
        "the padding is longer than its frame",
    }
)
NUMBERS = (1, 1, 1, 3, 3, 5, 7, 9, 0, 2, 101)
_CALL = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")]
#: Heads of requests, and others.
HEADS = [
    [*_CALL, ("te", "trailers")],
    [*_CALL, ("content-length", "5")],
    [*_CALL, ("x", "y" * 50)],
    [("a", "b")],
    [("grpc-status", "0"), ("B", "c")],
]


@dataclass
class Found:
    """What a run has found."""

    faults: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass
class Outcome:
    """What became of a sequence: the streams with their heads and bytes, and how it ended."""

    heads: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    #: Those that this side or the peer has reset.
    reset: set[int] = field(default_factory=set)
    fault: str = ""
    reason: str = ""


def sequence(rng: random.Random) -> bytes:
    """Frames in an order that may be lawful, of which some are mutated."""
    encoder = hpack.Encoder()
    parts = [PREFACE, frames.frame(Kind.SETTINGS, 0, 0)]
    for number in range(1, 2 * rng.randrange(1, 6), 2):
        parts += _request(rng, encoder, number)
    for _ in range(rng.choice([0, 0, 1, 3])):
        parts.insert(rng.randrange(2, len(parts) + 1), _frame(rng, encoder))
    if rng.random() < 0.4:
        _mutate(rng, parts)
    return b"".join(parts)


def _request(rng: random.Random, encoder: hpack.Encoder, number: int) -> list[bytes]:
    """A lawful request, its frames in one piece."""
    block = encoder.encode(rng.choice(HEADS[:3]), huffman=rng.random() < 0.5)
    body = b"12345" if rng.random() < 0.7 else b""
    ends = END_STREAM if not body and rng.random() < 0.5 else 0
    cut = rng.randrange(len(block)) if rng.random() < 0.3 else None
    if cut is None:
        made = [frames.frame(Kind.HEADERS, END_HEADERS | ends, number, block)]
    else:
        first = frames.frame(Kind.HEADERS, ends, number, block[:cut])
        made = [first + frames.frame(Kind.CONTINUATION, END_HEADERS, number, block[cut:])]
    if not ends:
        middle = rng.randrange(len(body) + 1)
        made.append(frames.frame(Kind.DATA, 0, number, body[:middle]))
        made.append(frames.frame(Kind.DATA, END_STREAM, number, body[middle:]))
    return made


def _frame(rng: random.Random, encoder: hpack.Encoder) -> bytes:
    """A frame of any kind on any stream."""
    number = rng.choice(NUMBERS)
    kind = rng.choice([*Kind, *Kind, 77])
    flags = rng.choice([0, 0, END_STREAM, END_HEADERS, END_HEADERS | END_STREAM])
    flags |= rng.choice([0, 0, 0, PADDED, PRIORITIZED])
    match kind:
        case Kind.HEADERS | Kind.CONTINUATION:
            block = encoder.encode(rng.choice(HEADS))
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
            payload = rng.randbytes(rng.choice([0, 1, 5, 300, 16384]))
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


def ours(data: bytes, pieces: list[int]) -> Outcome:
    """What a session makes of it. Raises AssertionError if its accounts are wrong."""
    now = 0.0
    session: Session[Stream] = Session(Stream, SessionLimits(), lambda: now)
    outcome = Outcome()
    at = 0
    for size in (*pieces, len(data)):
        session.receive(memoryview(data[at : at + size]))
        at += size
        for event, stream in session.events:
            if event is Event.OPENED:
                head = stream.head
                outcome.heads[stream.number] = (head.method, head.path, head.authority)
            elif event is Event.RESET:
                outcome.reset.add(stream.number)
        outcome.reset |= _sent_resets(session)
        session.events.clear()
        _check(session)
    for stream in session.streams.values():
        if not stream.is_reset:
            outcome.contents[stream.number] = bytes(stream.unread)
            if stream.is_ended:
                outcome.ended.add(stream.number)
    if session.fault is not None:
        outcome.fault, outcome.reason = session.fault.code.name, str(session.fault)
    for stream in [*session.streams.values()]:
        session.release(stream)
    _check(session)
    assert not session.credit.unread
    assert not session.credit.expected
    return outcome


def _sent_resets(session: Session[Stream]) -> set[int]:
    """The streams that the session resets."""
    sent, found = b"".join(session.outbox.take(0)[0]), set()
    while sent:
        length = int.from_bytes(sent[:3])
        if sent[3] == Kind.RST_STREAM:
            found.add(int.from_bytes(sent[5:9]))
        sent = sent[frames.HEAD_BYTES + length :]
    return found


def _check(session: Session[Stream]) -> None:
    streams, credit = session.streams.values(), session.credit
    assert credit.unread == sum(len(stream.unread) for stream in streams)
    assert credit.expected == sum(stream.missing for stream in streams)
    assert credit.unread <= 2 * FIRST_WINDOW + credit.expected
    assert len(streams) <= SessionLimits().max_streams
    assert len(session.outbox.control) <= SessionLimits().max_control_bytes + (64 << 10)


def theirs(data: bytes) -> Outcome:
    """What h2 makes of it."""
    config = h2.config.H2Configuration(client_side=False, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    outcome = Outcome()
    try:
        for event in connection.receive_data(data):
            _note(event, outcome)
    except h2.exceptions.ProtocolError as error:
        outcome.fault, outcome.reason = type(error).__name__, str(error)
    return outcome


def _note(event: Any, outcome: Outcome) -> None:
    match event:
        case h2.events.RequestReceived():
            values = {bytes(name): bytes(value) for name, value in event.headers}
            path = values[b":path"].decode("latin-1")
            head = values[b":method"].decode("latin-1"), path, values.get(b":authority")
            outcome.heads[event.stream_id] = head
            outcome.contents[event.stream_id] = b""
        case h2.events.DataReceived():
            outcome.contents[event.stream_id] += event.data
        case h2.events.StreamEnded():
            outcome.ended.add(event.stream_id)
        case h2.events.StreamReset():
            outcome.reset.add(event.stream_id)


def compare(data: bytes, rng: random.Random) -> tuple[str, str]:
    """How a sequence ends in both, and what is wrong, if anything."""
    whole = ours(data, [])
    pieces = [rng.choice([1, 2, 9, 30]) for _ in range(len(data) // 10)]
    if (cut := ours(data, pieces)) != whole:
        return "differs", f"in pieces {cut}, whole {whole}: {data.hex()}"
    other = theirs(data)
    told = f"{whole.fault or 'served'} / {other.fault or 'served'}"
    if whole.fault and other.fault:
        return told, ""
    if whole.fault or other.fault:
        is_known = (
            whole.reason in OURS_ALONE
            if whole.fault
            else whole.reset or any(reason in other.reason for reason in THEIRS_ALONE)
        )
        return told, "" if is_known else f"{whole.reason} / {other.reason}: {data.hex()}"
    for number in other.heads.keys() - whole.reset - other.reset:
        # h2 gives out whole frames alone.
        same = whole.contents.get(number, b"").startswith(other.contents[number])
        if not same or whole.heads.get(number) != other.heads[number]:
            return told, f"stream {number}: {whole} is not {other}: {data.hex()}"
        if (number in whole.ended) is not (number in other.ended):
            return told, f"stream {number} ends in one of both: {data.hex()}"
    return told, ""


def fuzz(count: int, seed: int) -> Found:
    """Compare ``count`` sequences."""
    found = Found()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        data = sequence(rng)
        try:
            told, fault = compare(data, rng)
        except Exception as error:
            told, fault = "raised", f"{error!r}: {data.hex()}"
        found.outcomes[told] += 1
        if fault:
            found.faults.append(fault)
    return found


def run(count: float, seed: int) -> Report:
    """The row of the table."""
    found = fuzz(int(count), seed)
    lines = (f"{times:9,} {told}" for told, times in found.outcomes.most_common())
    return Report("\n".join((f"{count:,.0f} sequences (seed {seed})", *lines)), found.faults)
