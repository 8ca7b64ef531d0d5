"""The network faults of each connection, drawn by source; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from support.http.proxy import FAULTLESS, Fault

#: The most garbled bytes in a run: fewer than lie between a request's digest and its payload, as
#: without the digest a changed payload is not detected.
LONGEST_RUN = 16
#: Heads are a few hundred bytes, payloads up to some hundred thousand: both are met.
FURTHEST = 600_000


def response(status: int, reason: str, kind: str = "text/plain", content: str = "busy") -> bytes:
    """A response of a proxy itself."""
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return f"{head}Retry-After: 0\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode()


RESPONSES = (
    response(502, "Bad Gateway", "text/html", "<h1>502 Bad Gateway</h1>"),
    response(503, "Service Unavailable"),
    response(504, "Gateway Timeout"),
    response(200, "OK", "text/html", "<h1>Please log in</h1>"),
    b"\x16\x03\x01 this is no HTTP at all\r\n\r\n",
)


def plan(seed: str) -> Callable[[int], Fault]:
    """From a connection's number its fault; one in three has none."""

    def fault(number: int) -> Fault:
        source = random.Random(f"{seed} {number}")
        chosen = FAULTLESS
        if source.random() < 1 / 3:
            return chosen
        for kind in source.sample(KINDS, source.choice((1, 1, 2, 3))):
            chosen = kind(source, chosen)
        return chosen

    return fault


def _offset(source: random.Random) -> int:
    """As often among the first hundred bytes as among the last hundred thousand."""
    return int(FURTHEST ** source.random())


def _run(source: random.Random) -> frozenset[int]:
    start, length = _offset(source) - 1, source.choice((1, 1, 1, 2, LONGEST_RUN))
    return frozenset(range(start, start + length))


def _cut_up(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, cut_up=_offset(source) - 1, reset=source.random() < 0.5)


def _cut_down(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, cut_down=_offset(source) - 1, reset=source.random() < 0.5)


def _garble_up(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, garble_up=_run(source), mask=_mask(source))


def _garble_down(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, garble_down=_run(source), mask=_mask(source))


def _mask(source: random.Random) -> int:
    return source.choice((1 << source.randrange(8), source.randrange(1, 256)))


def _delay(source: random.Random, fault: Fault) -> Fault:
    seconds = source.choice((0.02, 0.3, 60.0))
    return replace(fault, **{source.choice(("delay_up", "delay_down")): seconds})


def _throttle_up(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, pieces_up=source.choice((100, 5000, 50_000)), pause_up=0.01)


def _throttle_down(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, pieces_down=source.choice((100, 5000, 50_000)), pause_down=0.01)


def _respond(source: random.Random, fault: Fault) -> Fault:
    return replace(fault, answer=source.choice(RESPONSES), early=source.random() < 0.5)


KINDS = (
    _cut_up,
    _cut_down,
    _garble_up,
    _garble_down,
    _delay,
    _throttle_up,
    _throttle_down,
    _respond,
)
