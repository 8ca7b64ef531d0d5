"""How a wrong result differs from the right one: off by one, a zero's sign, another NaN."""

from __future__ import annotations

from enum import IntFlag

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..reference import FLOATS, Bits, is_nan


class Effect(IntFlag):
    """The ways in which wrong results differ from the right ones, as flags."""

    OFF_BY_ONE = 1
    SIGN_LOST = 2
    QUIETED = 4
    ANOTHER_NAN = 8
    OTHER = 16

    def __str__(self) -> str:
        """The difference in words; empty if results differ in several ways."""
        return _WORDS.get(self, "")


_WORDS = {
    Effect.OFF_BY_ONE: "off by one",
    Effect.SIGN_LOST: "sign lost",
    Effect.QUIETED: "quieted",
    Effect.ANOTHER_NAN: "another NaN",
}


def effects(got: Bits, want: Bits, dtype: str) -> npt.NDArray[np.uint8]:
    """The :class:`Effect` of each wrong result."""
    if dtype not in FLOATS:
        one = want.dtype.type(1)
        by_one = (got - want == one) | (want - got == one)
        return np.where(by_one, Effect.OFF_BY_ONE, Effect.OTHER).astype(np.uint8)
    fmt = FLOATS[dtype]
    number = want.dtype.type
    nan = is_nan(dtype, want)
    with np.errstate(all="ignore"):
        distance = _values(got, dtype) - _values(want, dtype)
    return np.select(
        [
            nan & (got == want | number(1 << (fmt.fraction_bits - 1))),
            nan & is_nan(dtype, got),
            (want == fmt.sign_bit) & (got == 0),
            np.abs(distance) == 1,
        ],
        [Effect.QUIETED, Effect.ANOTHER_NAN, Effect.SIGN_LOST, Effect.OFF_BY_ONE],
        Effect.OTHER,
    ).astype(np.uint8)


def _values(bits: Bits, dtype: str) -> npt.NDArray[np.float64]:
    return bits.view(BY_NAME[dtype].numpy).astype(np.float64)
