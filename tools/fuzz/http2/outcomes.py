"""What becomes of a sequence here: a session alone, and one whose streams are served meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tensor_round_service.grpc.http2 import frames
from tensor_round_service.grpc.http2.fields import encoded
from tensor_round_service.grpc.http2.frames import END_STREAM, FIRST_WINDOW, Code, Kind
from tensor_round_service.grpc.http2.limits import Event, SessionLimits
from tensor_round_service.grpc.http2.session import Session
from tensor_round_service.grpc.http2.stream import Stream

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
