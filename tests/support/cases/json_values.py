"""Any JSON value, and how much there is of it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tensor_round.contract.wire.strictjson import Limits

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.text() | st.floats(-1e300, 1e300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> Limits:
    """How much a value has of what is limited, with one more value for each empty container."""
    if not isinstance(value, list | dict):
        return Limits(0, 0, 0, 1)
    inner = [counted(item) for item in (value.values() if isinstance(value, dict) else value)]
    depths, *others = zip(*inner, strict=True) if inner else ((0,), (), (), (1,))
    containers, members, values = map(sum, others)
    own = len(value) if isinstance(value, dict) else 0
    return Limits(max(depths) + 1, containers + 1, members + own, values + 1)
