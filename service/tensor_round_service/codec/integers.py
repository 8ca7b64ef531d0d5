"""Decimal integers to the bytes of an integer dtype, exactly or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType

#: Numbers converted at once, so that other threads can run in between.
_BLOCK = 65_536
# The most characters of a 64-bit integer: JSON has no leading zeros.
_MAX_LENGTH = len(str(-(2**63)))


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def leading(texts: Sequence[bytes], dtype: DType) -> npt.NDArray[Any]:
    """The values of JSON numbers, up to the first that is no integer of the dtype.

    If the result is shorter than ``texts``, its length is the index of the wrong number, and its
    values are undefined. ``1`` is an integer; ``1.0`` and ``1e0`` are not.
    """
    values = np.empty(len(texts), dtype.numpy)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        integers = _integers(block, dtype)
        if integers is None:
            wrong = next(i for i, text in enumerate(block) if _integers([text], dtype) is None)
            return values[: start + wrong]
        values[start : start + _BLOCK] = integers
    return values


def _integers(texts: Sequence[bytes], dtype: DType) -> list[int] | None:
    # The length comes first: Python parses long integers slowly, and refuses very long ones.
    if max(map(len, texts)) > _MAX_LENGTH:
        return None
    try:
        values = list(map(int, texts))
    except ValueError:  # a fraction, an exponent, a token
        return None
    low, high = limits(dtype)
    return values if low <= min(values) and max(values) <= high else None
