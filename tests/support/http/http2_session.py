"""A session without a connection: what a test has it receive, and what it does then."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from support.http.http2_frames import HELLO, Frame, split
from tensor_round_service.grpc.http2.fields import encoded
from tensor_round_service.grpc.http2.frames import Code, Kind
from tensor_round_service.grpc.http2.limits import Event, SessionLimits
from tensor_round_service.grpc.http2.session import Session
from tensor_round_service.grpc.http2.stream import Stream

HEAD = b"\x88" + encoded((b"content-type", b"application/grpc"))
TRAILERS = encoded((b"grpc-status", b"0"))


class Peer:
    """A session, its clock, and what it sends."""

    def __init__(self, *received: bytes, hello: bytes = HELLO, **limits: Any) -> None:
        self.now = 0.0
        self.session: Session[Stream] = Session(
            Stream, replace(SessionLimits(), **limits), lambda: self.now
        )
        self.events: list[tuple[Event, Stream]] = []
        self._unread = b""
        self.receive(hello, *received)

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
        frames, rest = split(b"".join(parts))
        assert not rest
        return frames

    def stream(self, number: int = 1) -> Stream:
        return self.session.streams[number]

    @property
    def fault(self) -> Code | None:
        return None if self.session.fault is None else self.session.fault.code


def kinds(frames: list[Frame]) -> Counter[Kind]:
    return Counter(Kind(frame.kind) for frame in frames)
