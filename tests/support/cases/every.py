"""Many small cases in one test: all of them are tried, and those that fail are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest


def every(check: Callable[..., object], *axes: Iterable[object]) -> None:
    """Check each combination of the values of ``axes``; raise all that failed, by their values."""
    each(check, product(*axes))


def grouped(groups: Mapping[str, Sequence[tuple[object, ...]]]) -> Any:
    """Have a test for each group, which checks all of its rows; a row has a check's arguments.

    A test costs some milliseconds in each process, however little it does.
    """

    def over(check: Callable[..., object]) -> Any:
        @pytest.mark.parametrize("group", [name for name, rows in groups.items() if rows])
        def test(group: str) -> None:
            each(check, groups[group])

        return test

    return over


def every_pair(check: Callable[..., object], *axes: Iterable[object]) -> None:
    """The same for combinations in which any two values of different axes meet."""
    each(check, meetings(*map(tuple, axes)))


def meetings(*axes: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Combinations in which any two values of different axes meet.

    Those whose places have a sum that a number divides: whichever two places are given, the others
    reach enough sums for it.
    """
    *others, _, _ = sorted(len(axis) - 1 for axis in axes)
    for places in product(*(range(len(axis)) for axis in axes)):
        if sum(places) % (1 + sum(others)) == 0:
            yield tuple(axis[place] for axis, place in zip(axes, places, strict=True))


def each(check: Callable[..., object], rows: Iterable[tuple[object, ...]]) -> None:
    """The same for these combinations."""
    failed: list[Exception] = []
    count = 0
    for values in rows:
        count += 1
        try:
            check(*values)
        except Exception as error:
            error.add_note(f"case: {', '.join(map(_told, values))}")
            failed.append(error)
    assert count, "no case"
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {count} cases", failed)


def _told(value: object) -> str:
    text = str(value)
    return text if len(text) < 100 else f"{text[:97]}..."
