"""Exact to the last bit over a real socket, against the integer-only reference."""

from __future__ import annotations

import numpy as np
import pytest

from support.http.native_form import round_bits
from support.services.server import Service
from tensor_round_verify import reference
from tensor_round_verify.patterns import random_patterns, samples


@pytest.mark.parametrize("rounding", reference.ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_pattern_of_the_small_floats(service: Service, dtype: str, rounding: str) -> None:
    patterns = reference.all_patterns(dtype)
    expected = reference.rounded(patterns, dtype, rounding)
    np.testing.assert_array_equal(round_bits(service, patterns, dtype, rounding), expected)


@pytest.mark.parametrize("rounding", reference.ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_hard_values_of_the_wide_floats(service: Service, dtype: str, rounding: str) -> None:
    patterns = samples(dtype)
    expected = reference.rounded(patterns, dtype, rounding)
    np.testing.assert_array_equal(round_bits(service, patterns, dtype, rounding), expected)


@pytest.mark.parametrize("rounding", reference.ROUNDINGS)
@pytest.mark.parametrize("dtype", sorted(reference.INTEGER_WIDTHS))
def test_integers_come_back_as_they_are(service: Service, dtype: str, rounding: str) -> None:
    patterns = random_patterns(dtype, 1000, seed=1)
    np.testing.assert_array_equal(round_bits(service, patterns, dtype, rounding), patterns)


def test_conformance_digests_are_the_published_ones(service: Service) -> None:
    report = service.get("/conformance").json()
    assert report["conforms"] is True
    (backend,) = report["backends"].values()
    assert sum(len(row) for row in backend.values()) == 8 * 5
