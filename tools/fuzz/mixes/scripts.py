"""What is done on one connection, all of it made from a seed and the connection's number."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from . import refusals
from .exchange import After, Request, bare
from .forms import SOUND, json_object
from .refusals import REFUSED

#: Bytes that are sent one by one at the most.
_DRIBBLED = 500
#: Seconds between two writes.
_PAUSES = (0.0, 0.0, 0.0, 0.001, 0.005)
_FORMS = {**SOUND, **REFUSED}


class End(enum.Enum):
    """How a connection ends; over TLS there is no end of one side."""

    ASKED_FOR = "the last request asks for the end"
    ONE_SIDE = "one side ends behind the last byte"
    ONE_SIDE_LATER = "one side ends behind the last answer"
    GARBAGE = "garbage behind the last request"
    #: From here on nothing is owed.
    WITHIN = "one side ends anywhere"
    HANG_UP = "hangs up anywhere"
    RESET = "resets anywhere"

    @property
    def owes_answers(self) -> bool:
        """Whether every request is to be answered."""
        return self not in (End.WITHIN, End.HANG_UP, End.RESET)


_ENDS = {
    End.ASKED_FOR: 30,
    End.ONE_SIDE: 14,
    End.ONE_SIDE_LATER: 24,
    End.GARBAGE: 6,
    End.WITHIN: 10,
    End.HANG_UP: 10,
    End.RESET: 6,
}


@dataclass(frozen=True)
class Write:
    """Bytes to send at once, and the seconds to wait then."""

    data: bytes
    pause: float


@dataclass(frozen=True)
class Wait:
    """Nothing more is sent before so many requests are answered."""

    answers: int
    #: Or one more has been told to go on.
    or_told: bool = False


@dataclass(frozen=True)
class Script:
    """One connection."""

    number: int
    encrypted: bool
    requests: list[Request]
    steps: list[Write | Wait]
    end: End
    #: The most bytes to take at a time, and the seconds to wait then.
    takes: tuple[int, float]

    def __str__(self) -> str:
        names = "; ".join(request.name for request in self.requests)
        sizes = ", ".join(
            f"{len(step.data)}" if isinstance(step, Write) else f"(wait for {step.answers})"
            for step in self.steps[:40]
        )
        how = "TLS" if self.encrypted else "plain"
        return f"connection {self.number} ({how}): {names} | writes: {sizes} | {self.end.value}"


def is_encrypted(number: int) -> bool:
    """Every second connection is over TLS."""
    return number % 2 == 1


def script(seed: int, number: int) -> Script:
    """The script of that number."""
    chance = random.Random(f"{seed}:{number}")
    encrypted = is_encrypted(number)
    (end,) = chance.choices(list(_ENDS), list(_ENDS.values()))
    if encrypted and end is End.ONE_SIDE:
        end = End.WITHIN
    requests = _requests(chance, end)
    steps = list(_steps(chance, requests))
    if not end.owes_answers:
        steps = _cut_short(chance, steps)
    slow = chance.random() < 0.1
    takes = (chance.choice((100, 5000, 30_000)), 0.002 if slow else 0.0)
    return Script(number, encrypted, requests, steps, end, takes)


def _requests(chance: random.Random, end: End) -> list[Request]:
    count = chance.choice((1, 2, 3, 3, 4, 5, 6, 8, 12))
    made: list[Request] = []
    while len(made) < count:
        (form,) = chance.choices(list(_FORMS), list(_FORMS.values()))
        request = form(chance)
        # Few connections end early, or the others would never get to many requests.
        if request.after is not After.KEPT and len(made) + 1 < count and chance.random() < 0.6:
            continue
        # The same again, as the service remembers the heads that it has seen.
        again = chance.randint(2, 6) if chance.random() < 0.15 and len(request.wire) < 5000 else 1
        made += [request] * (again if request.after is After.KEPT else 1)
    if end is End.ASKED_FOR:
        line = "Connection: close"
        made.append(bare("the end", "GET /livez", json_object, line, after=After.CLOSED))
    elif end is End.GARBAGE:
        made.append(refusals.garbage(chance))
    elif chance.random() < 0.06:
        made.append(refusals.last(chance))
    return made


def _steps(chance: random.Random, requests: list[Request]) -> Iterator[Write | Wait]:
    """Groups of requests, each sent when the group before is answered."""
    most = chance.choice((1, 1, 2, 4, 20))
    begin = 0
    while begin < len(requests):
        end = min(len(requests), begin + chance.randint(1, most))
        yield from _group(chance, requests, begin, end)
        begin = end
        if begin < len(requests) and not requests[begin].optional:
            yield Wait(begin)


def _group(
    chance: random.Random, requests: list[Request], begin: int, end: int
) -> Iterator[Write | Wait]:
    waiting, marks = b"", [0]
    for number, request in enumerate(requests[begin:end], begin):
        if chance.random() < 0.08:
            waiting += b"\r\n" * chance.randint(1, 2)
        marks += [len(waiting), len(waiting) + request.body_at]
        if request.expects and chance.random() < 0.6:
            yield from _pieces(chance, waiting + request.wire[: request.body_at], marks)
            yield Wait(number, or_told=True)
            waiting, marks = request.wire[request.body_at :], [0]
        else:
            waiting += request.wire
    yield from _pieces(chance, waiting, [*marks, len(waiting)])


def _pieces(chance: random.Random, data: bytes, marks: list[int]) -> Iterator[Write]:
    """Cuts at any byte, or near where a head or a body begins."""
    kind = chance.random()
    if kind < 0.35 or len(data) < 2:
        cuts: set[int] = set()
    elif kind < 0.4 and len(data) <= _DRIBBLED:
        cuts = set(range(1, len(data)))
    elif kind < 0.7:
        near = (mark + chance.randint(-3, 3) for mark in chance.choices(marks, k=3))
        cuts = {cut for cut in near if 0 < cut < len(data)}
    else:
        cuts = {chance.randrange(1, len(data)) for _ in range(chance.randint(1, 6))}
    bounds = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(bounds):
        pause = chance.choice(_PAUSES) if len(bounds) < 20 else 0.0
        yield Write(data[start:stop], pause)


def _cut_short(chance: random.Random, steps: list[Write | Wait]) -> list[Write | Wait]:
    total = sum(len(step.data) for step in steps if isinstance(step, Write))
    # At the end of a write too: with a request whole, and its answer under way.
    kept = steps[: chance.randint(1, len(steps))]
    if chance.random() < 0.3:
        return kept
    left = chance.randrange(1, total + 1)
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
