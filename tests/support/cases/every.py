"""Many small cases in one test: all of them are tried, and those that fail are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product


def every(check: Callable[..., object], *axes: Iterable[object]) -> None:
    """Check each combination of the values of ``axes``; raise all that failed, by their values."""
    failed: list[Exception] = []
    count = 0
    for values in product(*axes):
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
