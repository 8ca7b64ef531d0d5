from __future__ import annotations

import hashlib

from tensor_round.contract.digests import DIGESTS, differing
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, all_patterns, rounded


def digest(dtype: str, rounding: str) -> str:
    """As published: SHA-256 of the little-endian results for every pattern, ascending."""
    return hashlib.sha256(rounded(all_patterns(dtype), dtype, rounding).tobytes()).hexdigest()


def test_the_published_digests_are_the_references() -> None:
    recomputed = {
        (dtype, rounding): digest(dtype, rounding)
        for dtype, width in WIDTHS.items()
        if width <= 16
        for rounding in ROUNDINGS
    }
    assert recomputed == DIGESTS


def test_rows_that_differ_from_the_published_ones_are_named() -> None:
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for (dtype, rounding), published in DIGESTS.items():
        rows.setdefault(dtype, {})[rounding] = {"sha256": published}
    assert differing(rows) == []
    rows["int8"]["toward_zero"]["sha256"] = "0" * 64
    del rows["uint16"]["ties_to_even"]
    assert differing(rows) == ["int8 toward_zero", "uint16 ties_to_even"]
    assert len(differing({})) == len(DIGESTS)
