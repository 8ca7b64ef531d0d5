"""Figures of many durations."""

from __future__ import annotations

from collections.abc import Collection


def quantile(values: Collection[float], part: float) -> float:
    """The value that this part of all are not above; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def milliseconds(seconds: float) -> str:
    """A duration to be read."""
    return f"{seconds * 1e3:.1f} ms"
