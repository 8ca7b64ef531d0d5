"""The cause of wrong results in words, from the lengths and the places at which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .sample_arrays import Places

#: Elements of vectors and blocks.
WIDTHS = (2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Wrong:
    """The wrong results of one call: their places, and what they are ("not rounded", "zero")."""

    places: Places
    what: str


#: Wrong results by the length of the array.
ByLength = Mapping[int, Wrong]


def cause_of_lengths(found: ByLength, tried: Sequence[int]) -> str:
    """What the lengths with wrong results have in common, among those that were tried."""
    whats = {wrong.what for wrong in found.values()}
    what = whats.pop() if len(whats) == 1 else "wrong"
    told = _tail(found, tried, what) or _end(found, what) or _rest(found, what)
    told = told or _lane(found, what)
    if told:
        return told
    lengths = _lengths(set(found), tried)
    if all(wrong.places.size == n for n, wrong in found.items()):
        return f"{lengths} are {what}"
    n, wrong = next(iter(found.items()))
    count = (
        f"{wrong.places.size:,} of {n:,} elements, the first of them element {wrong.places[0]:,}"
    )
    return f"{lengths} are wrong in part: {count}, are {what}"


def _tail(found: ByLength, tried: Sequence[int], what: str) -> str:
    """A rest that is not a whole vector."""
    for width in WIDTHS:
        longer = {n for n in tried if n > width and n % width}
        behind = all(wrong.places[0] >= n - n % width for n, wrong in found.items())
        if longer and longer <= set(found) and behind and all(n % width for n in found):
            n = min(longer, key=lambda n: (n % width < 3, n))
            ends = _ends("last", n % width, n, what)
            return f"{ends}, like those after the last multiple of {width} at every length"
    return ""


def _end(found: ByLength, what: str) -> str:
    """As many elements at one end of every array."""
    sizes = {wrong.places.size for wrong in found.values()}
    n = max(min(found), sorted(found)[-1] if len(found) == 1 else sorted(found)[1])
    if len(sizes) == 1 and len(found) > 1 and max(sizes) < n:
        (size,) = sizes
        if all(wrong.places[0] == 0 and wrong.places[-1] == size - 1 for wrong in found.values()):
            return _ends("first", size, n, what)
        if all(wrong.places[0] == n - size for n, wrong in found.items()):
            return _ends("last", size, n, what)
    return ""


def _rest(found: ByLength, what: str) -> str:
    """All elements behind the first few."""
    first = {int(wrong.places[0]) for wrong in found.values()}
    if len(first) == 1 and 0 not in first:
        (start,) = first
        if all(wrong.places.size == n - start for n, wrong in found.items()):
            return f"the elements after the first {start:,} are {what}"
    return ""


def _lane(found: ByLength, what: str) -> str:
    """One element of each vector."""
    for width in WIDTHS:
        lane = int(next(iter(found.values())).places[0]) % width
        lanes = {n: np.arange(lane, n, width) for n in found}
        same = all(np.array_equal(wrong.places, lanes[n]) for n, wrong in found.items())
        if same and max(map(len, lanes.values())) > 1:
            return f"element {lane} of each {width} is {what}"
    return ""


def _ends(which: str, count: int, length: int, what: str) -> str:
    """Such as "the last 3 of 19 elements are not rounded"."""
    if count == 1:
        return f"the {which} of {length:,} elements is {what}"
    return f"the {which} {count:,} of {length:,} elements are {what}"


def _lengths(found: set[int], tried: Sequence[int]) -> str:
    """The lengths as a rule, if there is one."""
    if found == set(tried):
        return "arrays of every length"
    if found == {1}:
        return "arrays of one element"
    for limit in tried:
        if found == {n for n in tried if n < limit}:
            return f"arrays of fewer than {limit:,} elements"
        if found == {n for n in tried if n >= limit}:
            return f"arrays of {limit:,} elements and more"
    if found == {n for n in tried if n % 2}:
        return "arrays of an odd number of elements"
    for width in WIDTHS:
        if found == {n for n in tried if n % width}:
            return f"arrays whose length is not a multiple of {width}"
    some = sorted(found)
    more = f" and {len(some) - 3} other lengths" if len(some) > 3 else ""
    return f"arrays of {', '.join(f'{n:,}' for n in some[:3])}{more}"


def cause_of_starts(found: Sequence[int], tried: Sequence[int]) -> str:
    """What these starts, in bytes behind a boundary, have in common."""
    for width in (64, 32, 16, 8, 4, 2):
        if set(found) == {start for start in tried if start % width}:
            return f"at addresses that are not multiples of {width}"
    return f"{found[0]} bytes behind a multiple of 64, and {len(found) - 1} other addresses"
