"""Which fault each connection meets, by chance, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from support.http.proxy import FAULTLESS, Fault

#: Bytes of a run of garbled ones at the most: fewer than lie between a request's digest
#: and its payload, as without the former nobody can tell that the latter has changed.
LONGEST_RUN = 16
#: Heads are a few hundred bytes, payloads up to some hundred thousand: both are met.
FURTHEST = 600_000


def answer(status: int, reason: str, kind: str = "text/plain", content: str = "busy") -> bytes:
    """What a proxy says of its own accord."""
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return f"{head}Retry-After: 0\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode()


ANSWERS = (
    answer(502, "Bad Gateway", "text/html", "<h1>502 Bad Gateway</h1>"),
    answer(503, "Service Unavailable"),
    answer(504, "Gateway Timeout"),
    answer(200, "OK", "text/html", "<h1>Please log in</h1>"),
    b"\x16\x03\x01 this is no HTTP at all\r\n\r\n",
)


def plan(seed: str) -> Callable[[int], Fault]:
    """From a connection's number, what is done to it; one in three is left alone."""

    def fault(number: int) -> Fault:
        chance = random.Random(f"{seed} {number}")
        chosen = FAULTLESS
        if chance.random() < 1 / 3:
            return chosen
        for strike in chance.sample(STRIKES, chance.choice((1, 1, 2, 3))):
            chosen = strike(chance, chosen)
        return chosen

    return fault


def _offset(chance: random.Random) -> int:
    """As often among the first hundred bytes as among the last hundred thousand."""
    return int(FURTHEST ** chance.random())


def _run(chance: random.Random) -> frozenset[int]:
    start, length = _offset(chance) - 1, chance.choice((1, 1, 1, 2, LONGEST_RUN))
    return frozenset(range(start, start + length))


def _cut_up(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, cut_up=_offset(chance) - 1, reset=chance.random() < 0.5)


def _cut_down(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, cut_down=_offset(chance) - 1, reset=chance.random() < 0.5)


def _garble_up(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, garble_up=_run(chance), mask=_mask(chance))


def _garble_down(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, garble_down=_run(chance), mask=_mask(chance))


def _mask(chance: random.Random) -> int:
    return chance.choice((1 << chance.randrange(8), chance.randrange(1, 256)))


def _delay(chance: random.Random, fault: Fault) -> Fault:
    seconds = chance.choice((0.02, 0.3, 60.0))
    return replace(fault, **{chance.choice(("delay_up", "delay_down")): seconds})


def _throttle_up(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, pieces_up=chance.choice((100, 5000, 50_000)), pause_up=0.01)


def _throttle_down(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, pieces_down=chance.choice((100, 5000, 50_000)), pause_down=0.01)


def _answer(chance: random.Random, fault: Fault) -> Fault:
    return replace(fault, answer=chance.choice(ANSWERS), early=chance.random() < 0.5)


STRIKES = (
    _cut_up,
    _cut_down,
    _garble_up,
    _garble_down,
    _delay,
    _throttle_up,
    _throttle_down,
    _answer,
)
