"""The cause of wrong results in words, from the lengths and the places at which they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..explain import Places

#: Elements of vectors and blocks.
WIDTHS = (2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Wrong:
    """The wrong results of one call: their places, and what they are ("not rounded", "zero")."""

    places: Places
    what: str


#: Wrong results by the length of the array.
ByLength = Mapping[int, Wrong]


def cause_of_lengths(found: ByLength, tried: Sequence[int], noun: str) -> str:
    """What the lengths with wrong results have in common, among those that were tried."""
    whats = {wrong.what for wrong in found.values()}
    what = whats.pop() if len(whats) == 1 else "wrong"
    nouns = f"{noun}s"
    if all(wrong.places.size == n for n, wrong in found.items()):
        return f"{_lengths(set(found), tried, noun)} are {what}"
    if told := _rule_of_places(found, noun):
        return f"{told} {what}"
    if told := _tail(found, tried, what, noun):
        return told
    n, wrong = next(iter(found.items()))
    count = f"{wrong.places.size:,} of {n:,} {nouns}, the first of them {noun} {wrong.places[0]:,}"
    return f"{_lengths(set(found), tried, noun)} are wrong in part: {count}, are {what}"


def _tail(found: ByLength, tried: Sequence[int], what: str, noun: str) -> str:
    """A rest that is not a whole vector."""
    for width in WIDTHS:
        tails = {n: n % width for n in tried if n % width and n > width}
        own = {n: wrong for n, wrong in found.items() if n in tails}
        if own and all(n % width and w.places[0] >= n - n % width for n, w in found.items()):
            # Such as 3 of 11, which is easily pictured.
            n = min(own, key=lambda n: (own[n].places.size != min(3, width - 1), n))
            count = own[n].places.size
            whole = own.keys() == tails.keys() and all(
                w.places.size == tails[n] for n, w in own.items()
            )
            where = f"after the last multiple of {width}"
            if whole:
                return f"the {noun}s {where} are {what}: {_ends('last', tails[n], n, noun)}"
            first = f"such as {noun} {own[n].places[0]:,} of {n:,}"
            more = f" and {count - 1:,} more" if count > 1 else ""
            return f"some of the {noun}s {where} are {what}, {first}{more}"
    return ""


def _rule_of_places(found: ByLength, noun: str) -> str:
    """What is wrong in every array, if its places follow from the length."""

    def everywhere(places: Callable[[int], Places]) -> bool:
        return all(np.array_equal(wrong.places, places(n)) for n, wrong in found.items())

    some = found[min(found)].places
    size, start = some.size, int(some[0])
    n = sorted(found)[:2][-1]
    if len(found) > 1 and size < n:  # as many at one end
        verb = "is" if size == 1 else "are"
        if everywhere(lambda n: np.arange(size)):
            return f"{_ends('first', size, n, noun)} {verb}"
        if everywhere(lambda n: np.arange(n - size, n)):
            return f"{_ends('last', size, n, noun)} {verb}"
    if start and everywhere(lambda n: np.arange(start, n)):
        return f"the {noun}s after the first {start:,} are"
    for width in WIDTHS:  # one of each vector
        lane = start % width
        if max(found) > lane + width and everywhere(partial(_lane, lane, width)):
            return f"{noun} {lane} of each {width} is"
    return ""


def _lane(lane: int, width: int, length: int) -> Places:
    return np.arange(lane, length, width)


def _ends(which: str, count: int, length: int, noun: str) -> str:
    """Such as "the last 3 of 19 elements"."""
    return f"the {which}{f' {count:,}' if count > 1 else ''} of {length:,} {noun}s"


def _lengths(found: set[int], tried: Sequence[int], noun: str) -> str:
    """The lengths as a rule, if there is one."""
    nouns = f"{noun}s"
    if found == set(tried):
        return "arrays of every length"
    if found == {1}:
        return f"arrays of one {noun}"
    for limit in tried:
        if found == {n for n in tried if n < limit}:
            return f"arrays of fewer than {limit:,} {nouns}"
        if found == {n for n in tried if n >= limit}:
            return f"arrays of {limit:,} {nouns} and more"
    if found == {n for n in tried if n % 2}:
        return f"arrays of an odd number of {nouns}"
    for width in (*WIDTHS, 256, 512, 1024):
        if found == {n for n in tried if n % width}:
            return f"arrays whose length is not a multiple of {width:,}"
        if len(found) > 1 and found == {n for n in tried if n % width == 0}:
            return f"arrays whose length is a multiple of {width:,}"
    some = sorted(found)
    more = f" and {len(some) - 3} other lengths" if len(some) > 3 else ""
    return f"arrays of {', '.join(f'{n:,}' for n in some[:3])} {nouns}{more}"


def cause_of_starts(found: Sequence[int], tried: Sequence[int]) -> str:
    """What these starts, in bytes behind a boundary, have in common."""
    for width in (64, 32, 16, 8, 4, 2):
        if set(found) == {start for start in tried if start % width}:
            return f"at addresses that are not multiples of {width}"
    return f"{found[0]} bytes behind a multiple of 64, and {len(found) - 1} other addresses"
