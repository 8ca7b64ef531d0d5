"""Mutated sequences of HTTP/2's frames: a session, fed whole and in pieces, and h2's.

A session must raise nothing, keep its accounts, and say the same of a sequence however it is cut,
and so must one whose streams are served meanwhile. Where it serves what h2 refuses, or refuses
what that serves, the reason must be one of those here.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from stress.metrics import Report
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.fields import encoded
from tensor_round_service.net.http2.frames import END_STREAM, FIRST_WINDOW, Code, Kind
from tensor_round_service.net.http2.limits import Event, SessionLimits
from tensor_round_service.net.http2.session import Session
from tensor_round_service.net.http2.stream import Stream

from .sequences import Sequences

#: Why a connection may be ended here that h2 serves: by the head of a frame whose rest is yet to
#: come, as a stream's error (RFC 9113, section 5.4, lets it be the connection's), or by a rule that
#: h2 does not know.
OURS_ALONE = frozenset(
    {
        "a frame is longer than it may be",
        "a frame has a wrong length",
        "a header block is too long",
        "a stream has a lower number than one before",
        "a client does not push",
        "CONTINUATION without HEADERS",
        "a header block is not finished",
        "a frame is on a stream that is not open",
        "DATA on a stream that is not open",
        "DATA on a stream that is over",
        "more DATA than the connection's window",
        "more DATA than a stream's window",
        "a window overflows",
        "a window is updated by 0",
        "the first frame must be SETTINGS",
        "the number of a stream must be odd",
        "the padding is longer than its frame",
        "SETTINGS have too many values",
        "PRIORITY is on a wrong stream",
    }
)
#: Why h2 may refuse what is served here: another stream alone is reset, what a peer that has said
#: GOAWAY sends is served, settings and lengths that change nothing are ignored, no request needs an
#: authority, frames and bodies are judged when they are whole, and which of the streams with lower
#: numbers were open is forgotten.
H2_ALONE = (
    "in state ConnectionState.CLOSED",
    "has invalid value",
    "Stream ID must be",
    "Expected 5 bytes, received",
    "is lower than",
    "does not have an :authority",
    "may not depend on itself",
    "Frame data missing or invalid",
)
#: Sequences that are drawn from one seed, one after another.
BATCH = 1000
#: Of so many that are received, half of all, one is compared with h2.
EVERY = 10
#: Batches after which a line says how far it is.
SAID = 500


@dataclass
class Found:
    """What a run has found."""

    faults: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Found) -> Found:
        self.faults += other.faults
        self.outcomes += other.outcomes
        return self


class Fuzzer:
    """The sequences of a seed, and what they are compared with."""

    def __init__(self, seed: int, every: int = EVERY) -> None:
        self._seed, self._every = seed, every
        self._sequences = Sequences(seed)

    def batch(self, number: int, count: int) -> Found:
        """Compare ``count`` sequences. Every other one is served; the others are received twice."""
        found, rng = Found(), random.Random(f"{self._seed} {number}")
        for turn in range(count):
            data = self._sequences.draw(rng)
            cuts = sorted([int(rng.random() * len(data)) for _ in range(3)])
            try:
                if turn % 2:
                    serve(data, cuts, rng)
                    faults, told = [], ["served meanwhile"]
                else:
                    faults, told = self._compare(turn // 2, data, cuts)
            except Exception as error:  # of any class: it is what is looked for
                faults, told = [repr(error)], ["raised"]
            found.outcomes.update(told)
            found.faults += [f"batch {number}: {fault}: {data.hex()}" for fault in faults]
        return found

    def _compare(self, turn: int, data: bytes, cuts: list[int]) -> tuple[list[str], list[str]]:
        """What is wrong with a sequence that is received, and how it ends."""
        whole = ours(data, [])
        cut = ours(data, cuts)
        told = [whole.fault or "served"]
        faults = [] if cut == whole else [f"cut at {cuts} {cut}, whole {whole}"]
        if turn % self._every == 0:
            other = of_h2(data)
            told.append(f"h2: {whole.fault or 'served'} / {other.fault or 'served'}")
            faults += _differences(whole, other)
        return faults, told


def of_h2(data: bytes) -> Outcome:
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
            outcome.heads[event.stream_id] = _head(values)
            outcome.contents[event.stream_id] = b""
        case h2.events.DataReceived():
            outcome.contents[event.stream_id] += event.data
        case h2.events.StreamEnded():
            outcome.ended.add(event.stream_id)
        case h2.events.StreamReset():
            outcome.reset.add(event.stream_id)


def _head(values: dict[bytes, bytes]) -> tuple[Any, ...]:
    path = values.get(b":path", b"").partition(b"?")[0].decode("latin-1")
    return values.get(b":method", b"").decode("latin-1"), path, values.get(b":authority")


def _differences(whole: Outcome, other: Outcome) -> list[str]:
    """What is wrong if one sequence ends like this here, and like that in h2."""
    if whole.fault and other.fault:
        return []
    if whole.fault or other.fault:
        may_differ = whole.reason in OURS_ALONE if whole.fault else bool(whole.reset)
        may_differ |= any(reason in other.reason for reason in H2_ALONE)
        return [] if may_differ else [f"{whole} is not h2's {other}"]
    for number in other.heads.keys() - whole.reset - other.reset:
        # h2 gives out whole frames alone.
        if not whole.contents.get(number, b"").startswith(other.contents[number]):
            return [f"stream {number}: {whole} is not h2's {other}"]
        if whole.heads.get(number) != other.heads[number]:
            return [f"the head of stream {number}: {whole} is not h2's {other}"]
        if (number in whole.ended) is not (number in other.ended):
            return [f"stream {number} ends in one of both: {whole} is not h2's {other}"]
    return []


@cache
def _fuzzer(seed: int) -> Fuzzer:
    return Fuzzer(seed)


def _batch(seed: int, number: int, count: int) -> Found:
    """One batch, in any process."""
    return _fuzzer(seed).batch(number, count)


def fuzz(count: int, seed: int, workers: int = 1) -> Found:
    """Compare ``count`` sequences, and some of those received with h2."""
    found = Found()
    counts = [min(BATCH, count - begin) for begin in range(0, count, BATCH)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as processes:
        batches = processes.map(partial(_batch, seed), range(len(counts)), counts)
        for number, batch in enumerate(batches, 1):
            found += batch
            if number % SAID == 0:
                print(f"{number * BATCH:,} sequences, {len(found.faults)} faults", flush=True)
    return found


def run(count: float, seed: int, workers: int) -> Report:
    """The row of the table."""
    began = time.monotonic()
    found = fuzz(int(count), seed, workers)
    pace = count / (time.monotonic() - began)
    lines = (f"{times:11,} {told}" for told, times in sorted(found.outcomes.items()))
    told = f"{count:,.0f} sequences (seed {seed}), {pace:,.0f} a second"
    return Report("\n".join((told, *lines)), found.faults)


_LIMITS = SessionLimits()
_HEAD, _TRAILERS = b"\x88", encoded((b"grpc-status", b"0"))
#: Lengths of targets, and of responses.
_LENGTHS = (0, 1, 4, 5, 6, 300, 20_000)
#: Kind, flags, stream and payload of a frame.
Told = tuple[int, int, int, bytes]


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


def ours(data: bytes, cuts: list[int]) -> Outcome:
    """What a session makes of it, fed in pieces that end there.

    Raises AssertionError if its accounts are wrong.
    """
    session: Session[Stream] = Session(Stream, _LIMITS, _stopped_clock)
    outcome = Outcome()
    at, whole = 0, memoryview(data)
    for end in (*cuts, len(data)):
        session.receive(whole[at:end])
        at = end
        for event, stream in session.events:
            if event is Event.OPENED:
                head = stream.head
                outcome.heads[stream.number] = (head.method, head.path, head.authority)
            elif event is Event.RESET:
                outcome.reset.add(stream.number)
        session.events.clear()
    sent = told(b"".join(session.outbox.take(0)[0]))
    outcome.reset |= {number for kind, _, number, _ in sent if kind == Kind.RST_STREAM}
    for stream in session.streams.values():
        if not stream.is_reset:
            outcome.contents[stream.number] = bytes(stream.unread)
            if stream.is_ended:
                outcome.ended.add(stream.number)
    if session.fault is not None:
        outcome.fault, outcome.reason = session.fault.code.name, str(session.fault)
    _check(session)
    _end(session)
    return outcome


def told(sent: bytes) -> list[Told]:
    """The frames in what a side sends."""
    found, at = [], 0
    while at < len(sent):
        body = at + frames.HEAD_BYTES
        end = body + int.from_bytes(sent[at : at + 3])
        number = int.from_bytes(sent[at + 5 : body])
        found.append((sent[at + 3], sent[at + 4], number, sent[body:end]))
        at = end
    assert at == len(sent), "a frame is cut off"
    return found


def serve(data: bytes, cuts: list[int], rng: random.Random) -> None:
    """Serve the streams of a sequence as handlers may; AssertionError if anything is wrong."""
    Served(rng).run(data, cuts)


class Served:
    """A session, and what its handlers do: fill memory, respond, reset, end, at any moment."""

    def __init__(self, rng: random.Random) -> None:
        self._chance = rng.random
        self._session: Session[Stream] = Session(Stream, _LIMITS, _stopped_clock)
        #: The streams on which a response is begun.
        self._begun: set[int] = set()
        #: Streams that this side has ended or reset.
        self._over: set[int] = set()

    def run(self, data: bytes, cuts: list[int]) -> None:
        """Receive all, in pieces that end there, and act between them."""
        session, at, whole = self._session, 0, memoryview(data)
        for end in (*cuts, len(data)):
            while at < end:
                target = session.target
                if target is None or session.fault is not None:
                    session.receive(whole[at:end])
                    break
                count = min(len(target), end - at)
                target[:count] = whole[at : at + count]
                session.advance(count)
                at += count
            at = end
            self._act()
            self._send()
            _check(session)
        _end(session)
        self._send()

    def _act(self) -> None:
        session = self._session
        events, session.events = session.events, []
        for _, stream in events:
            if stream.number not in session.streams:
                continue
            chance = self._chance()
            if stream.is_reset or chance < 0.05:
                session.release(stream)
            elif chance < 0.1:
                session.reset(stream, Code.ENHANCE_YOUR_CALM)
            elif chance < 0.5 and not stream.missing:
                stream.fill(memoryview(bytearray(self._length())))
                session.open_window(stream)
            elif chance < 0.9 and not stream.is_finished:
                self._respond(stream)

    def _respond(self, stream: Stream) -> None:
        session = self._session
        if stream.number not in self._begun:
            self._begun.add(stream.number)
            session.begin(stream, _HEAD)
        if stream.trailers is None:
            trailers = _TRAILERS if self._chance() < 0.7 else None
            session.send(stream, [bytes(self._length())], trailers)

    def _length(self) -> int:
        return _LENGTHS[int(self._chance() * len(_LENGTHS))]

    def _send(self) -> None:
        """Look at what is sent: no stream has anything behind its end."""
        session = self._session
        parts, emptied = session.outbox.take(int(self._chance() * 40_000))
        for stream in emptied:
            session.emptied(stream)
        over = self._over
        for kind, flags, number, _ in told(b"".join(parts)):
            if number and kind != Kind.RST_STREAM:
                assert number not in over, f"{kind} behind the end of stream {number}"
                assert number <= session.last, f"{kind} on stream {number}"
            if kind == Kind.RST_STREAM or (flags & END_STREAM and kind in (0, 1)):
                over.add(number)


def _check(session: Session[Stream]) -> None:
    streams, credit = session.streams.values(), session.credit
    unread = missing = 0
    for stream in streams:
        unread += len(stream.unread)
        missing += stream.missing
    assert (credit.unread, credit.expected) == (unread, missing)
    assert unread <= 2 * FIRST_WINDOW + missing
    assert len(streams) <= _LIMITS.max_streams
    assert len(session.outbox.control) <= _LIMITS.max_control_bytes + (64 << 10)


def _end(session: Session[Stream]) -> None:
    """Have all handlers end: nothing is held then."""
    for stream in [*session.streams.values()]:
        session.release(stream)
    _check(session)
    assert not session.streams


def _stopped_clock() -> float:
    return 0.0
