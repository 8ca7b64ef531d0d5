"""What wrong results have in common, told only where it is so of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensor_round_verify import verify
from tensor_round_verify.checks import conversion_verdicts
from tensor_round_verify.report import Effect, effects


@pytest.mark.parametrize(
    ("dtype", "got", "want", "effect"),
    [
        ("float16", 0x3C00, 0x0000, Effect.OFF_BY_ONE),
        ("float16", 0x8000, 0xBC00, Effect.OFF_BY_ONE),
        ("float64", 0x4330000000000002, 0x4330000000000001, Effect.OFF_BY_ONE),
        ("bfloat16", 0x4302, 0x4301, Effect.OFF_BY_ONE),
        ("int64", 2**62 + 2, 2**62 + 1, Effect.OFF_BY_ONE),
        ("int8", 0xFF, 0x00, Effect.OFF_BY_ONE),
        ("uint32", 2**24, 2**24 + 2, Effect.OTHER),
        ("float16", 0x0000, 0x8000, Effect.SIGN_LOST),
        ("float16", 0x8000, 0x0000, Effect.OTHER),
        ("float16", 0x7E01, 0x7C01, Effect.QUIETED),
        ("float16", 0xFE01, 0x7C01, Effect.ANOTHER_NAN),
        ("float16", 0x7C00, 0x7C01, Effect.OTHER),
        ("float16", 0x7C00, 0x7BFF, Effect.OTHER),
    ],
)
def test_the_effect_of_a_result(dtype: str, got: int, want: int, effect: Effect) -> None:
    unsigned = f"<u{np.dtype(dtype if dtype != 'bfloat16' else 'u2').itemsize}"
    found = effects(np.array([got], unsigned), np.array([want], unsigned), dtype)
    assert found.tolist() == [effect]


@pytest.mark.parametrize(
    ("target", "got", "want", "effect"),
    [
        ("int8", 4, 5, Effect.OFF_BY_ONE),
        ("float16", 0x3C02, 0x3C01, Effect.OFF_BY_ONE),
        ("float16", 0x3C03, 0x3C01, Effect.OTHER),
        ("float16", 0x3C01, 0xBC01, Effect.SIGN_LOST),
        ("float16", 0xBC01, 0x3C01, Effect.OTHER),
        ("int8", 0x01, 0x81, Effect.OTHER),
    ],
)
def test_the_effect_of_a_conversion(target: str, got: int, want: int, effect: Effect) -> None:
    unsigned = f"<u{np.dtype(target).itemsize}"
    found = conversion_verdicts.effects(
        np.array([got], unsigned), np.array([want], unsigned), target
    )
    assert found.tolist() == [effect]


def test_effects_are_told_where_all_are_alike() -> None:
    def kernel(x: Any) -> Any:
        y = np.where(np.isnan(x), x.view("u2"), np.rint(x).view("u2"))
        y[x == 2.5], y[x == 4.5], y[x == 1.25] = 0x4200, 0x4500, 0x0000
        return y.view("f2")

    (verdict,) = verify(kernel, dtypes=["float16"]).verdicts
    assert "2 of 2,048 exact ties (off by one)" in verdict.sentence
    data = verdict.as_data()["classes"]
    assert data["exact_tie"]["effect"] == "off by one"

    def other(x: Any) -> Any:
        y = kernel(x)
        y[x == 6.5] = 9
        return y

    (verdict,) = verify(other, dtypes=["float16"]).verdicts
    assert "3 of 2,048 exact ties, 1 of" in verdict.sentence
    assert verdict.as_data()["classes"]["exact_tie"]["effect"] is None
