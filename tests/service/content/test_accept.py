"""Accept-Encoding: the coding that is liked best."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round_service.content.codings import preferred_coding

CODINGS = ("gzip", "deflate")


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate", "gzip"),
        ("deflate, gzip", "deflate"),
        ("gzip, deflate, br, zstd", "gzip"),
        ("br", "identity"),
        ("*", "identity"),
        ("identity", "identity"),
        ("identity, gzip", "identity"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0.0, deflate;q=0.001", "deflate"),
        ("gzip;q=0.3, deflate;q=0.8", "deflate"),
        ("gzip ; q=0.3 ,\tdeflate;Q=0.2", "gzip"),
        ("gzip;q=0.5, identity;q=1.0", "identity"),
        ("gzip;q=0.5, identity;q=0", "gzip"),
        ("gzip;level=1;q=0.5, deflate;q=0.6", "deflate"),
        ("gzip;q=x, deflate;q=0.1", "deflate"),
        ("gzip;q=nan", "identity"),
        ("gzip;q=1e9, deflate;q=-1", "identity"),
        ("gzip;q=1.5, deflate;q=0.1", "deflate"),
        ("gzip;q=1.0, deflate", "gzip"),
        (",,gzip,", "gzip"),
    ],
)
def test_preferences(accepted: str, coding: str) -> None:
    assert preferred_coding(accepted, CODINGS) == coding


@given(st.text())
def test_any_text_prefers_something(accepted: str) -> None:
    assert preferred_coding(accepted, CODINGS) in ("identity", *CODINGS)
