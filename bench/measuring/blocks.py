"""Blocks of requests, asked one after another or so many at a time, and the rows' blocks in turn.

A busy moment of the machine hits all rows alike if each has a block in its turn.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ..load_generator.generator import LoadFailed
from .client import Refused
from .processes import Server

Figure = TypeVar("Figure")
#: What fails with a server that does not do its part.
FAULTS = (Refused, LoadFailed, OSError)


class Calls(Protocol):
    """A connection on which calls may overlap; each has a place, a number from 0."""

    def __call__(self) -> Any:
        """Ask once."""

    def begin(self, place: int) -> None:
        """Ask, and do not wait."""

    def finish(self) -> int:
        """Wait for a call that is over; its place."""


def in_turn(
    blocks: Mapping[Any, Callable[[], Figure]],
    rounds: int,
    missing: dict[str, str],
) -> dict[Any, list[Figure]]:
    """A block of each row in turn, in every second round the other way round.

    A row that fails is left out, and put in ``missing``.
    """
    found: dict[Any, list[Figure]] = {row: [] for row in blocks}
    for turn in range(rounds):
        for row in list(found)[:: 1 if turn % 2 == 0 else -1]:
            try:
                found[row].append(blocks[row]())
            except FAULTS as fault:
                missing[", ".join(map(str, row))] = str(fault)
                del found[row]
    return found


def on_cores(server: Server, ask: Callable[[], tuple[float, int]]) -> tuple[float, float]:
    """The seconds of a request in a block, and the server's time on a core for one."""
    busy = server.cpu_seconds()
    seconds, count = ask()
    return seconds, (server.cpu_seconds() - busy) / count


def summary(figures: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """What is kept of the blocks of a row."""
    rounds = [seconds for seconds, _ in figures]
    return {
        "best": min(rounds),
        "median": statistics.median(rounds),
        "server_cpu": min(busy for _, busy in figures),
        "rounds": rounds,
    }


def block(calls: Calls, places: int, seconds: float) -> tuple[float, int]:
    """The seconds of a request, and how many there were.

    Of one at a time it is the median; of more, the time of all by their number.
    """
    if places > 1:
        return at_once(calls, places, seconds)
    return one_by_one(calls, seconds)


def one_by_one(call: Callable[[], Any], seconds: float) -> tuple[float, int]:
    """The median seconds of a request, and how many there were; at least three."""
    times: list[float] = []
    clock = time.perf_counter
    end = clock() + seconds
    began = 0.0
    while began < end or len(times) < 3:
        began = clock()
        call()
        times.append(clock() - began)
    return statistics.median(times), len(times)


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


def answer(calls: Any, tensor: np.typing.NDArray[Any], places: int, warm_up: int) -> None:
    """Ask in a process of its own, for another one that measures.

    It prints ``true`` when it has been answered rightly. For each line of its stdin, the seconds of
    a block, it prints the seconds of a request and the number of requests, as JSON.
    """
    for _ in range(warm_up):
        if not np.array_equal(calls(), np.rint(tensor)):
            raise SystemExit(f"wrong responses of {tensor.nbytes} bytes")
    print("true", flush=True)
    for line in sys.stdin:
        print(json.dumps(block(calls, places, float(line))), flush=True)
