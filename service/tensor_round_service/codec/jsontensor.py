"""Tensors as JSON numbers, exactly: numbers to packed bytes, and back.

:func:`read` expects a value of :func:`.strictjson.loads` with ``numbers="exact"``, where each
number is still text. So 64-bit integers never become floats, a decimal is rounded once, and
``-0`` keeps its sign.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import Fault, InvalidDescriptor

from . import nesting, numerals

#: The names of float values that JSON has no number for, as strings or bare tokens.
SPECIALS = frozenset({"NaN", "Infinity", "-Infinity"})
#: Elements that are formatted at once.
BLOCK = 65_536


def read(
    data: Any,
    dtype: DType,
    shape: Sequence[int],
    *,
    any_nesting: bool = False,
    loc: nesting.Loc = ("data",),
) -> memoryview:
    """The packed bytes, little-endian and in C order, of JSON numbers.

    ``data`` is a value of ``strictjson.loads(..., numbers="exact")``: arrays nested exactly as
    ``shape``, or one flat array. With ``any_nesting`` any nesting is read in row-major order, as
    the Open Inference Protocol has it. Floats may also be the strings in :data:`SPECIALS`. They
    are rounded once, ties to even; overflow gives infinity, or NaN in float8_e4m3fn, which has no
    infinity. Integers must be in range and written as integers: ``1``, not ``1.0`` or ``1e0``.

    Raises :class:`PayloadSizeMismatch` naming both counts if there are fewer or more
    numbers than ``shape`` has elements, and :class:`InvalidDescriptor` with the path
    under ``loc`` of the first wrong element, or the first array nested wrongly.
    """
    leaves = nesting.flatten(data, shape, any_nesting=any_nesting, loc=loc)
    wrong = _wrong_type(leaves, dtype)
    if wrong is None and dtype.is_float:
        return numerals.patterns(leaves, dtype).view(np.uint8).data
    if wrong is None:
        values = numerals.leading(leaves, dtype)
        if len(values) == len(leaves):
            return values.view(np.uint8).data
        low, high = numerals.limits(dtype)
        must = f"must be an integer from {low} to {high}, without fraction or exponent"
        wrong = len(values), must
    index, message = wrong
    raise InvalidDescriptor.of([Fault((*loc, *nesting.path(data, index)), message)])


def write(
    payload: bytes | bytearray | memoryview,
    dtype: DType,
    shape: Sequence[int],
    *,
    nan_tokens: bool = False,
) -> bytes:
    """The JSON of a packed tensor, nested as its shape: ASCII, without spaces.

    ``payload`` has exactly the tensor's bytes. Floats are Python's shortest decimals of their
    float64 values, which :func:`read` converts back to the same bits; -0.0 keeps its sign. NaN
    and infinities are strings, or bare tokens with ``nan_tokens``; a NaN loses its payload. Rank 0
    is a bare number. An empty tensor is nested too (``[[],[]]`` for [2, 0]), up to
    ``nesting.MAX_EMPTY_ARRAYS``.
    """
    if 0 in shape:
        return nesting.empty(shape).encode("ascii")
    values = np.frombuffer(payload, dtype.numpy, math.prod(shape))
    return _text(values, dtype, tuple(shape), nan_tokens).encode("ascii")


def longest_number(dtype: DType) -> int:
    """The most characters that :func:`write` gives for a number of this dtype."""
    if not dtype.is_float:
        return max(len(str(limit)) for limit in numerals.limits(dtype))
    return len(repr(-sys.float_info.max))  # the longest of any float64


_NAMES = {str: "a string", bool: "a boolean", type(None): "null", dict: "an object"}


def _wrong_type(leaves: list[Any], dtype: DType) -> tuple[int, str] | None:
    """The first leaf that is no number of the dtype's kind: its index, and the broken rule."""
    if not set(map(type, leaves)) - {bytes}:
        return None
    allowed = SPECIALS if dtype.is_float else frozenset()
    for index, leaf in enumerate(leaves):
        if type(leaf) is not bytes and not (type(leaf) is str and leaf in allowed):
            names = ' or one of "NaN", "Infinity", "-Infinity"' if allowed else ""
            return index, f"must be a number{names}, got {_NAMES[type(leaf)]}"
    return None


def _text(values: npt.NDArray[Any], dtype: DType, shape: tuple[int, ...], nan_tokens: bool) -> str:
    """The text of a tensor that has elements, formatted in blocks."""
    if values.size <= BLOCK:
        return nesting.nest(_number_texts(values, dtype, nan_tokens), shape)
    rows = values.reshape(shape[0], -1)
    step = BLOCK // rows.shape[1]
    if step == 0:
        parts = (_text(row, dtype, shape[1:], nan_tokens) for row in rows)
    else:
        blocks = (rows[start : start + step] for start in range(0, shape[0], step))
        parts = (
            # Without its outer brackets, a part continues the one before it.
            _text(block.reshape(-1), dtype, (len(block), *shape[1:]), nan_tokens)[1:-1]
            for block in blocks
        )
    return f"[{','.join(parts)}]"


_SPECIAL_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _number_texts(values: npt.NDArray[Any], dtype: DType, nan_tokens: bool) -> list[str]:
    if not dtype.is_float:
        return list(map(int.__repr__, values.tolist()))
    # Widening is exact; a signalling NaN raises the invalid flag, which is of no interest.
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64)
    texts = list(map(float.__repr__, doubles.tolist()))
    for index in np.flatnonzero(~np.isfinite(doubles)).tolist():
        name = _SPECIAL_NAMES[texts[index]]
        texts[index] = name if nan_tokens else f'"{name}"'
    return texts
