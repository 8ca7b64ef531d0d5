"""A block of requests: asked one after another, or so many at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol


class Calls(Protocol):
    """A connection on which calls may overlap; each has a place, a number from 0."""

    def __call__(self) -> Any:
        """Ask once."""

    def begin(self, place: int) -> None:
        """Ask, and do not wait."""

    def finish(self) -> int:
        """Wait for a call that is over; its place."""


def block(calls: Calls, places: int, seconds: float) -> tuple[float, int]:
    """The seconds of a request, and how many there were.

    Of one at a time it is the median; of more, the time of all by their number.
    """
    if places > 1:
        return at_once(calls, places, seconds)
    times = one_by_one(calls, seconds)
    return statistics.median(times), len(times)


def one_by_one(call: Callable[[], Any], seconds: float) -> list[float]:
    """The seconds of each request; at least three."""
    times: list[float] = []
    clock = time.perf_counter
    end = clock() + seconds
    began = 0.0
    while began < end or len(times) < 3:
        began = clock()
        call()
        times.append(clock() - began)
    return times


def at_once(calls: Calls, places: int, seconds: float) -> tuple[float, int]:
    """The time of all by their number, and that; each place has a call under way."""
    clock = time.perf_counter
    began = clock()
    for place in range(places):
        calls.begin(place)
    number = places
    while clock() < began + seconds:
        calls.begin(calls.finish())
        number += 1
    for _ in range(places):
        calls.finish()
    return (clock() - began) / number, number
