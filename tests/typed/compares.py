"""Code that compares, and how strict type checkers see it: ``make types`` reads it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import tensor_round as tr
import tensor_round_verify as conformance

x = np.array([-2.5, 0.5], np.float32)
found = tr.compare(x, np.rint(x), progress=print)
assert_type(found, conformance.Comparison)
assert_type(found.rounding, str | None)
assert_type(found.exact, bool)
assert_type(tr.compare(x), tr.Differences)


async def compares(client: tr.Client, asynchronous: tr.AsyncClient) -> None:
    """Both clients, and what a pair is."""
    assert_type(client.compare(x), tr.Differences)
    pair = (await asynchronous.compare(x, progress=True)).pairs[0]
    assert_type(pair.different, int)
    assert_type([row.name for row in pair.classes.values()], list[str])


# What type checkers must refuse.
tr.compare(x, x, "ties_to_even")  # type: ignore[call-overload]  # pyright: ignore
