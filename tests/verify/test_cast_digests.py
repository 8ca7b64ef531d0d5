"""The published digests of casts, computed again by the reference."""

from __future__ import annotations

import hashlib
from itertools import permutations

import pytest

from tensor_round.contract.cast_digests import CAST_DIGESTS, FUNCTIONS
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.quantization_digests import published
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.reference import ROUNDINGS, all_patterns

#: Those of at most 8 bits, and of the others one target each: a pair takes a tenth of a second.
QUICK = [
    pair
    for number, pair in enumerate(CAST_DIGESTS)
    if BY_NAME[pair[0]].width <= 8 or number % 19 == 11
]


def check(source: str, target: str) -> None:
    found = hashlib.sha256()
    for rounding in ROUNDINGS:
        for saturate in (False, True):
            results = cast(all_patterns(source), source, target, rounding, saturate=saturate)
            if BY_NAME[target].is_sub_byte:
                results = results[::2] | results[1::2] << 4
            found.update(results.tobytes())
    assert found.hexdigest() == CAST_DIGESTS[source, target], (source, target)


def test_published_digests_of_casts_are_the_references() -> None:
    """SHA-256 of the little-endian results for every pattern, ascending, cast by cast."""
    assert [(str(f.rounding), f.saturates) for f in FUNCTIONS] == [
        (rounding, saturates) for rounding in ROUNDINGS for saturates in (False, True)
    ]
    for pair in QUICK:
        check(*pair)


@pytest.mark.sweep
@pytest.mark.parametrize("source", ["float16", "bfloat16", "int16", "uint16"])
def test_published_digests_of_casts_from_16_bits_are_the_references(source: str) -> None:
    for pair in published("cast", source):
        check(*pair)


def test_every_pair_from_a_narrow_type_has_a_digest() -> None:
    pairs = [(a.name, b.name) for a, b in permutations(DTYPES, 2) if a.width <= 16]
    assert [*CAST_DIGESTS] == pairs
    assert [*published("cast", to="int8")] == [pair for pair in pairs if pair[1] == "int8"]
    assert [*published("cast", "float16", "int8")] == [("float16", "int8")]
    assert published("cast", "int8", "int8") == published("cast", "float32") == {}
