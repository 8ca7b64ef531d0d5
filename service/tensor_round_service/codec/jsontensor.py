"""Tensors as JSON numbers, exactly: numbers to packed bytes, and back.

:func:`read` expects a value of :func:`.strictjson.loads` with ``numbers="exact"``, where each
number is still text. So 64-bit integers never become floats, a decimal is rounded once, and
``-0`` keeps its sign.

A decimal that is converted to float64 and then to float16 is rounded twice. The result is wrong
where the first rounding produces a tie of the second: 1.0004882812500002 rounds to a float64
exactly between two float16 values, though the decimal is above their midpoint. So only such ties
are decided by the decimal itself; all other decimals are rounded from their nearest float64.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.host_memory import elements, pack
from tensor_round.contract.layout import Layout
from tensor_round.contract.progress import Pause, no_pause

from . import nesting

#: The names of float values that JSON has no number for, as strings or bare tokens.
SPECIALS = frozenset({"NaN", "Infinity", "-Infinity"})
#: Elements that are read or written between two pauses, in a few milliseconds: NumPy's temporary
#: arrays stay in the cache, and other threads can run in between.
BLOCK = 4096
#: From this length on, text is a separate part.
PART_BYTES = 256 << 10
#: Bytes of an element's text as a Python string, in the block that is being formatted.
_STRING_BYTES = 160
#: The most copies of the text that is being written: of a block, its parts, their sum, its bytes.
_COPIES = 6
#: A block's text of rank 32 and a part have no more bytes than this.
_PIECE_BYTES = 768 << 10

_NAMES = {str: "a string", bool: "a boolean", type(None): "null", dict: "an object"}
_SPECIAL_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
#: The most characters of a 64-bit integer: JSON has no leading zeros.
_MAX_LENGTH = len(str(-(2**63)))


def read(
    data: Any,
    dtype: DType,
    shape: Sequence[int],
    *,
    any_nesting: bool = False,
    loc: nesting.Loc = ("data",),
    pause: Pause = no_pause,
) -> memoryview:
    """The packed bytes, little-endian and in C order, of JSON numbers.

    ``data`` is a value of ``strictjson.loads(..., numbers="exact")``: arrays nested exactly as
    ``shape``, or one flat array. With ``any_nesting`` any nesting is read in row-major order, as
    the Open Inference Protocol has it. Floats may also be the strings in :data:`SPECIALS`. They
    are rounded once, ties to even, as :func:`patterns` says. Integers must be in range and written
    as integers: ``1``, not ``1.0`` or ``1e0``.

    Raises :class:`PayloadSizeMismatch` naming both counts if there are fewer or more
    numbers than ``shape`` has elements, and :class:`InvalidDescriptor` with the path
    under ``loc`` of the first wrong element, or the first array nested wrongly.
    """
    leaves = nesting.flatten(data, shape, any_nesting=any_nesting, loc=loc, pause=pause)
    wrong = _wrong_type(leaves, dtype, pause)
    if wrong is None and dtype.is_float:
        return _bytes(patterns(leaves, dtype, pause), dtype)
    if wrong is None:
        values = _leading_integers(leaves, dtype, pause)
        if len(values) == len(leaves):
            return _bytes(values, dtype)
        low, high = _limits(dtype)
        must = f"must be an integer from {low} to {high}, without fraction or exponent"
        wrong = len(values), must
    index, message = wrong
    raise InvalidDescriptor.at((*loc, *nesting.path(data, index)), message)


def write(
    payload: bytes | bytearray | memoryview,
    dtype: DType,
    shape: Sequence[int],
    *,
    nan_tokens: bool = False,
    pause: Pause = no_pause,
) -> list[bytes]:
    """The JSON of a packed tensor, nested as its shape, in parts: ASCII, without spaces.

    ``payload`` has exactly the tensor's bytes. Floats are Python's shortest decimals of their
    float64 values, which :func:`read` converts back to the same bits; -0.0 keeps its sign. NaN
    and infinities are strings, or bare tokens with ``nan_tokens``; a NaN loses its payload. Rank 0
    is a bare number. An empty tensor is nested too (``[[],[]]`` for [2, 0]), up to
    ``nesting.MAX_EMPTY_ARRAYS``.
    """
    if 0 in shape:
        return [nesting.empty(shape).encode("ascii")]
    layout = Layout.of(dtype, (math.prod(shape),))
    values = elements(np.frombuffer(payload, np.uint8), layout)
    parts: list[bytes] = []
    texts: list[str] = []
    length = 0
    for text in _texts(values, dtype, tuple(shape), nan_tokens):
        texts.append(text)
        length += len(text)
        if length >= PART_BYTES:
            parts.append("".join(texts).encode("ascii"))
            texts, length = [], 0
        pause()
    return [*parts, "".join(texts).encode("ascii")]


def text_bytes(dtype: DType, shape: Sequence[int]) -> int:
    """The most bytes that :func:`write` allocates for a tensor, its temporaries included."""
    count = math.prod(shape)
    length = count * (longest_number(dtype) + 1) + 3 * min(
        nesting.arrays(shape), nesting.MAX_CONTAINERS
    )
    temporary = min(count, BLOCK) * _STRING_BYTES + min(length, _PIECE_BYTES) * _COPIES
    return length + temporary + (count if dtype.is_sub_byte else 0)


@cache
def longest_number(dtype: DType) -> int:
    """The most characters that :func:`write` gives for a number of this dtype."""
    if not dtype.is_float:
        return max(len(str(limit)) for limit in _limits(dtype))
    if dtype.width <= 8:
        every = np.arange(1 << dtype.width, dtype=np.uint8).view(dtype.numpy)
        return max(map(len, _number_texts(every, dtype, nan_tokens=False)))
    return len(repr(-sys.float_info.max))  # the longest of any float64


def _wrong_type(leaves: list[Any], dtype: DType, pause: Pause) -> tuple[int, str] | None:
    """The first leaf that is not a number of the dtype's kind: its index, and the broken rule."""
    if not nesting.types(leaves, pause) - {bytes}:
        return None
    allowed = SPECIALS if dtype.is_float else frozenset()
    for index, leaf in enumerate(leaves):
        if type(leaf) is not bytes and not (type(leaf) is str and leaf in allowed):
            names = ' or one of "NaN", "Infinity", "-Infinity"' if allowed else ""
            return index, f"must be a number{names}, got {_NAMES[type(leaf)]}"
    return None


def _texts(
    values: npt.NDArray[Any], dtype: DType, shape: tuple[int, ...], nan_tokens: bool
) -> Iterator[str]:
    """The text of a tensor that has elements, block by block."""
    if values.size <= BLOCK:
        yield nesting.nest(_number_texts(values, dtype, nan_tokens), shape)
        return
    rows = values.reshape(shape[0], -1)
    step = BLOCK // rows.shape[1]
    comma = "["
    for start in range(0, shape[0], max(step, 1)):
        yield comma
        comma = ","
        if step == 0:
            yield from _texts(rows[start], dtype, shape[1:], nan_tokens)
        else:
            block = rows[start : start + step]
            numbers = _number_texts(block.reshape(-1), dtype, nan_tokens)
            # Without its outer brackets, a block continues the one before it.
            yield nesting.nest(numbers, (len(block), *shape[1:]))[1:-1]
    yield "]"


def _number_texts(values: npt.NDArray[Any], dtype: DType, nan_tokens: bool) -> list[str]:
    if not dtype.is_float:
        integers = values.astype(np.int8) if dtype.is_sub_byte else values
        return list(map(int.__repr__, integers.tolist()))
    # Widening is exact; a signalling NaN raises the invalid flag, which is of no interest.
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64)
    texts = list(map(float.__repr__, doubles.tolist()))
    for index in np.flatnonzero(~np.isfinite(doubles)).tolist():
        name = _SPECIAL_NAMES[texts[index]]
        texts[index] = name if nan_tokens else f'"{name}"'
    return texts


def patterns(
    texts: Sequence[bytes | str], dtype: DType, pause: Pause = no_pause
) -> npt.NDArray[np.unsignedinteger]:
    """The patterns of decimals in a float dtype, rounded to nearest, ties to even.

    Each text is a JSON number or one of NaN, Infinity and -Infinity. Zeros keep their sign, if the
    type has -0. Overflow gives infinity, without one the type's NaN, and without a NaN the largest
    number, as which a NaN is read too. In float8_e8m0fnu, all but positive numbers are NaN.
    """
    bits = np.empty(len(texts), dtype.bits)
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        doubles = np.fromiter(map(float, block), np.float64, count=len(block))
        bits[start : start + BLOCK] = (
            doubles.view(np.uint64) if dtype.name == "float64" else _narrowed(doubles, block, dtype)
        )
        pause()
    return bits


def _narrowed(
    doubles: npt.NDArray[np.float64], texts: Sequence[bytes | str], dtype: DType
) -> npt.NDArray[np.unsignedinteger]:
    """The patterns of decimals in a narrower dtype than float64; ``doubles`` are the nearest."""
    _, exponents = np.frexp(doubles)
    # A type without a sign has no subnormals either.
    least_exponent = dtype.is_signed - dtype.exponent_bias
    # The exponent of the last bit that a value has in the dtype.
    last = np.maximum(exponents - 1, least_exponent) - dtype.mantissa_bits
    # Overflow and NaN raise flags, which are of no interest.
    with np.errstate(all="ignore"):
        scaled = np.ldexp(doubles, -last)
        whole = np.rint(scaled)
        for index in np.flatnonzero(np.abs(scaled - np.trunc(scaled)) == 0.5).tolist():
            if side := _side(texts[index], float(doubles[index])):
                magnitude = abs(scaled[index]) + 0.5 * side
                whole[index] = np.copysign(magnitude, scaled[index])
        # Both steps are exact, except for overflow.
        rounded = np.ldexp(whole, last)
        if not dtype.is_signed:
            least = 2.0 ** (least_exponent - dtype.mantissa_bits)
            rounded = np.where(doubles > 0, np.maximum(rounded, least), np.nan)
            for index in np.flatnonzero(doubles == 0).tolist():
                if not np.signbit(doubles[index]) and _side(texts[index], 0.0):
                    rounded[index] = least
        if dtype.nan is None:
            rounded[np.isnan(rounded)] = np.inf
        bits: npt.NDArray[np.unsignedinteger] = rounded.astype(dtype.numpy).view(dtype.bits)
    return bits


def _bytes(values: npt.NDArray[Any], dtype: DType) -> memoryview:
    """The bytes of elements on the wire."""
    return (pack(values) if dtype.is_sub_byte else values.view(np.uint8)).data


def _side(text: bytes | str, double: float) -> int:
    """Compare a decimal's magnitude with its nearest float64's: 1 above, -1 below, 0 equal."""
    decimal = Decimal(text if isinstance(text, str) else text.decode("ascii")).copy_abs()
    nearest = Decimal(abs(double))
    return int(decimal > nearest) - int(decimal < nearest)


def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    return -dtype.sign_bit, (1 << dtype.width) - 1 - dtype.sign_bit


def _leading_integers(texts: Sequence[bytes], dtype: DType, pause: Pause) -> npt.NDArray[Any]:
    """The values of JSON numbers, up to the first that is not an integer of the dtype.

    If the result is shorter than ``texts``, its length is the index of the wrong number, and its
    values are undefined. ``1`` is an integer; ``1.0`` and ``1e0`` are not.
    """
    values = np.empty(len(texts), dtype.numpy)
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        integers = _integers(block, dtype)
        if integers is None:
            wrong = next(i for i, text in enumerate(block) if _integers([text], dtype) is None)
            return values[: start + wrong]
        values[start : start + BLOCK] = integers
        pause()
    return values


def _integers(texts: Sequence[bytes], dtype: DType) -> list[int] | None:
    # The length comes first: Python parses long integers slowly, and refuses very long ones.
    if max(map(len, texts)) > _MAX_LENGTH:
        return None
    try:
        values = list(map(int, texts))
    except ValueError:  # a fraction, an exponent, a token
        return None
    low, high = _limits(dtype)
    return values if low <= min(values) and max(values) <= high else None
