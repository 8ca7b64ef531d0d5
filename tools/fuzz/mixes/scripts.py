"""What is sent on one connection, all of it drawn from a seed and the connection's number."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from . import refused
from .drawing import Source
from .messages import After, Request, bare
from .valid import VALID, json_object

#: The most bytes that are sent one by one.
_BYTE_BY_BYTE = 500
#: Seconds between two writes.
_PAUSES = (0.0, 0.0, 0.0, 0.001, 0.005)
_KINDS = {**VALID, **refused.KINDS}


class End(enum.Enum):
    """How a connection ends; TLS has no half-close."""

    REQUESTED = "Connection: close in the last request"
    HALF_CLOSE = "half-close behind the last byte"
    HALF_CLOSE_LATER = "half-close behind the last response"
    NO_HTTP = "no HTTP behind the last request"
    #: From here on no response is owed.
    WITHIN = "half-close anywhere"
    CLOSE = "close anywhere"
    RESET = "reset anywhere"

    @property
    def owes_responses(self) -> bool:
        """Whether every request must have its response."""
        return self not in (End.WITHIN, End.CLOSE, End.RESET)


_ENDS = {
    End.REQUESTED: 30,
    End.HALF_CLOSE: 14,
    End.HALF_CLOSE_LATER: 24,
    End.NO_HTTP: 6,
    End.WITHIN: 10,
    End.CLOSE: 10,
    End.RESET: 6,
}


@dataclass(frozen=True)
class Write:
    """Bytes to send at once, and the seconds to wait then."""

    data: bytes
    pause: float


@dataclass(frozen=True)
class Wait:
    """Nothing more is sent before so many responses are complete."""

    responses: int
    #: Or one more request has had ``100 Continue``.
    or_continue: bool = False


@dataclass(frozen=True)
class Script:
    """One connection."""

    number: int
    encrypted: bool
    requests: list[Request]
    steps: list[Write | Wait]
    end: End
    #: The most bytes to read at a time, and the seconds to wait then.
    reads: tuple[int, float]

    def __str__(self) -> str:
        names = "; ".join(request.name for request in self.requests)
        sizes = ", ".join(
            f"{len(step.data)}" if isinstance(step, Write) else f"(wait for {step.responses})"
            for step in self.steps[:40]
        )
        how = "TLS" if self.encrypted else "plain"
        return f"connection {self.number} ({how}): {names} | writes: {sizes} | {self.end.value}"


def is_encrypted(number: int) -> bool:
    """Every second connection is over TLS."""
    return number % 2 == 1


def script(seed: int, number: int) -> Script:
    """The script of that number."""
    source = Source(f"{seed}:{number}")
    encrypted = is_encrypted(number)
    (end,) = source.choices(list(_ENDS), list(_ENDS.values()))
    if encrypted and end is End.HALF_CLOSE:
        end = End.WITHIN
    requests = _requests(source, end)
    steps = list(_steps(source, requests))
    if not end.owes_responses:
        steps = _cut_short(source, steps)
    slow = source.random() < 0.1
    reads = (source.choice((100, 5000, 30_000)), 0.002 if slow else 0.0)
    return Script(number, encrypted, requests, steps, end, reads)


def _requests(source: Source, end: End) -> list[Request]:
    count = source.choice((1, 2, 3, 3, 4, 5, 6, 8, 12))
    made: list[Request] = []
    while len(made) < count:
        (kind,) = source.choices(list(_KINDS), list(_KINDS.values()))
        request = kind(source)
        # Few connections end early, or the others would never get to many requests.
        if request.after is not After.KEPT and len(made) + 1 < count and source.random() < 0.6:
            continue
        # The same again, as the service remembers what a request means.
        again = source.randint(2, 6) if source.random() < 0.15 and len(request.wire) < 5000 else 1
        made += [request] * (again if request.after is After.KEPT else 1)
    if end is End.REQUESTED:
        line = "Connection: close"
        made.append(bare("the end", "GET /livez", json_object, line, after=After.CLOSED))
    elif end is End.NO_HTTP:
        made.append(refused.no_http(source))
    elif source.random() < 0.06:
        made.append(refused.last(source))
    return made


def _steps(source: Source, requests: list[Request]) -> Iterator[Write | Wait]:
    """Groups of requests, each sent once the group before has its responses."""
    most = source.choice((1, 1, 2, 4, 20))
    begin = 0
    while begin < len(requests):
        end = min(len(requests), begin + source.randint(1, most))
        yield from _group(source, requests, begin, end)
        begin = end
        if begin < len(requests) and not requests[begin].optional:
            yield Wait(begin)


def _group(source: Source, requests: list[Request], begin: int, end: int) -> Iterator[Write | Wait]:
    waiting, marks = b"", [0]
    for number, request in enumerate(requests[begin:end], begin):
        if source.random() < 0.08:
            waiting += b"\r\n" * source.randint(1, 2)
        marks += [len(waiting), len(waiting) + request.body_at]
        if request.expects and source.random() < 0.6:
            yield from _pieces(source, waiting + request.wire[: request.body_at], marks)
            yield Wait(number, or_continue=True)
            waiting, marks = request.wire[request.body_at :], [0]
        else:
            waiting += request.wire
    yield from _pieces(source, waiting, [*marks, len(waiting)])


def _pieces(source: Source, data: bytes, marks: list[int]) -> Iterator[Write]:
    """Cuts at any byte, or near where a head or a body begins."""
    kind = source.random()
    if kind < 0.35 or len(data) < 2:
        cuts: set[int] = set()
    elif kind < 0.4 and len(data) <= _BYTE_BY_BYTE:
        cuts = set(range(1, len(data)))
    elif kind < 0.7:
        near = (mark + source.randint(-3, 3) for mark in source.choices(marks, k=3))
        cuts = {cut for cut in near if 0 < cut < len(data)}
    else:
        cuts = {source.randrange(1, len(data)) for _ in range(source.randint(1, 6))}
    bounds = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(bounds):
        pause = source.choice(_PAUSES) if len(bounds) < 20 else 0.0
        yield Write(data[start:stop], pause)


def _cut_short(source: Source, steps: list[Write | Wait]) -> list[Write | Wait]:
    total = sum(len(step.data) for step in steps if isinstance(step, Write))
    # At the end of a write too: with a request complete, and its response under way.
    kept = steps[: source.randint(1, len(steps))]
    if source.random() < 0.3:
        return kept
    left = source.randrange(1, total + 1)
    found: list[Write | Wait] = []
    for step in steps:
        if isinstance(step, Write):
            found.append(Write(step.data[:left], step.pause))
            left -= len(step.data)
            if left <= 0:
                break
        else:
            found.append(step)
    return found
