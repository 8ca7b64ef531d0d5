"""HTTP/2 in frames: what a client sends and reads, and a session that it talks to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import hpack

from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.fields import encoded
from tensor_round_service.net.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Code,
    Kind,
    Setting,
)
from tensor_round_service.net.http2.limits import Event, SessionLimits
from tensor_round_service.net.http2.session import Session
from tensor_round_service.net.http2.stream import Stream

#: What a client begins with.
HELLO = PREFACE + frames.settings({})
#: The head and the end of a response.
HEAD = b"\x88" + encoded((b"content-type", b"application/grpc"))
TRAILERS = encoded((b"grpc-status", b"0"))


def call_fields(path: str) -> list[tuple[str, str]]:
    """The fields of a call of this method."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]


CALL = call_fields("/a.Service/Method")


@dataclass(frozen=True)
class Frame:
    """A frame as it was read."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The code of RST_STREAM or GOAWAY."""
        return int.from_bytes(self.payload[4:8] if self.kind == Kind.GOAWAY else self.payload)

    @property
    def whole(self) -> bytes:
        """Its bytes."""
        return frames.frame(self.kind, self.flags, self.stream, self.payload)

    @property
    def ends(self) -> bool:
        return bool(self.flags & END_STREAM) and self.kind in (Kind.DATA, Kind.HEADERS)


def block(fields: Iterable[tuple[str, str]] = CALL, *others: tuple[str, str]) -> bytes:
    """A header block without a table."""
    return hpack.Encoder().encode([(*each, True) for each in (*fields, *others)])


def opened(number: int, *others: tuple[str, str], ends: bool = False, flags: int = 0) -> bytes:
    """A stream's head."""
    flags |= END_HEADERS | (END_STREAM if ends else 0)
    return frames.frame(Kind.HEADERS, flags, number, block(CALL, *others))


def data(number: int, content: bytes = b"", *, ends: bool = False) -> bytes:
    return frames.frame(Kind.DATA, END_STREAM if ends else 0, number, content)


def call(number: int, content: bytes) -> bytes:
    """A whole request in two frames."""
    head = opened(number, ("content-length", str(len(content))))
    return head + data(number, content, ends=True)


def setting(name: Setting, value: int) -> bytes:
    return frames.settings({name: value})


def split(received: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames in these bytes, and the rest."""
    found = []
    while len(received) >= frames.HEAD_BYTES:
        end = frames.HEAD_BYTES + int.from_bytes(received[:3])
        if len(received) < end:
            break
        number = int.from_bytes(received[5:9])
        found.append(Frame(received[3], received[4], number, received[9:end]))
        received = received[end:]
    return found, received


class Peer:
    """A session without a connection: its clock, its events, and what it sends after its hello."""

    def __init__(self, *received: bytes, hello: bytes = HELLO, **limits: Any) -> None:
        self.now = 0.0
        self.session: Session[Stream] = Session(
            Stream, replace(SessionLimits(), **limits), lambda: self.now
        )
        self.events: list[tuple[Event, Stream]] = []
        self.receive(hello)
        if hello:
            self.sent()
        self.receive(*received)

    def receive(self, *received: bytes) -> list[Event]:
        """Have it receive these; returns the events."""
        before = len(self.events)
        for each in received:
            self.session.receive(memoryview(each))
            self.take_events()
        return [event for event, _ in self.events[before:]]

    def take_events(self) -> None:
        events, self.session.events = self.session.events, []
        self.events += events

    def sent(self, limit: int = 1 << 30) -> list[Frame]:
        """The frames that it sends now."""
        parts, emptied = self.session.outbox.take(limit)
        for stream in emptied:
            self.session.emptied(stream)
        if emptied:
            parts += self.session.outbox.take(0)[0]
        found, rest = split(b"".join(parts))
        assert not rest
        return found

    def stream(self, number: int = 1) -> Stream:
        return self.session.streams[number]

    @property
    def fault(self) -> Code | None:
        return None if self.session.fault is None else self.session.fault.code


def kinds(found: list[Frame]) -> Counter[Kind]:
    return Counter(Kind(each.kind) for each in found)
