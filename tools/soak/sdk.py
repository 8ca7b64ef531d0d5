"""The clients: sync, async, and with tensors cut into tiles."""

from __future__ import annotations

import numpy as np

from .cases import Case, Wrong
from .lane import TILE_BYTES, Lane


def client(lane: Lane) -> None:
    """One array, at times in place."""
    case = Case.drawn(lane.chance)
    out = case.x.copy() if lane.chance.random() < 0.3 else None
    given = case.x if out is None else out
    got = lane.sync.round(given, case.rounding, out=out)
    if out is not None and got is not out:
        raise Wrong(f"{case}: not in place")
    case.check_array(got)


def async_client(lane: Lane) -> None:
    """One array, through the client for event loops."""
    case = Case.drawn(lane.chance)
    case.check_array(lane.asynchronous.round(case.x, case.rounding))


def tiled_client(lane: Lane) -> None:
    """An array of several tiles on several connections, each with its digest."""
    case = Case.drawn(lane.chance)
    few = max(1, TILE_BYTES * 3 // case.x.itemsize)
    big = np.resize(case.x, max(few, case.x.size)) if case.x.size else case.x
    expected = np.resize(case.expected, big.size) if case.x.size else case.expected
    whole = Case(big, case.dtype, case.rounding, expected)
    whole.check_array(lane.tiled.round(big, case.rounding))
