"""Linear quantization with NumPy, in tiles: exact, by theorems on rounding twice.

A quotient is rounded once to the type that the specification names, although NumPy computes in
float32 or float64. Both roundings together are one if no quotient of the operands lies as near to
a tie of the narrow type, without being one, as the wide type's rounding reaches: a quotient of
integers X / S differs from T by at least 1 / S, or X and T * S are equal. So float32 is enough for
operands and results of 16 bits (2 * 11 + 2 bits: S. A. Figueroa, "When is double rounding
innocuous?", 1995), and float64 for an ``int32`` or ``float32`` by a ``float32``, 31 + 24 bits of
which a quotient's nearest tie is 2^-49 away. The same holds for subnormal results, which have fewer
bits. A product is exact in the wide type, or rounded by it alone, or to odd.

An integer's last bits are those of 1.5 * 2^23 and the quotient in float32, which the addition
rounds to the nearest, ties to even. As patterns, such sums are integers in the same order, so that
they saturate as integers, infinities included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Convert, Dequantize, FakeQuantize, Function, Quantize
from tensor_round.contract.rounding import Rounding

from .. import Bytes
from .conversion_rule import ends
from .conversions import FLOAT32, FLOAT64, chain, convert
from .granularity import TILE, Granularity, Numbers, Place, against
from .parameters import Kind, Parameter, Tile, memory_of

#: The sum of this and an integer below 2^22 has that integer in its last bits.
_GRID = np.float32(1.5 * 2**23)
_BASE = int(_GRID.view(np.int32))
#: The types beside float32 of operands that texts have, and of quotients by scales of 16 bits.
_NARROW = (BY_NAME["float16"], BY_NAME["bfloat16"])
#: Elements that a compiled kernel computes at once.
COMPILED_TILE = 1 << 22
#: Rows from this length on are clipped in one pass. In those of up to 2048 np.clip has no vectors.
_CLIPPED = 1 << 12
#: Operands from this size on are split among threads.
SPLIT_BYTES = 2 << 20
#: Bits of a difference of 32-bit integers, and of one of 8-bit floats in units of the least.
_WIDE_BITS = 34

_Float = type[np.floating[Any]]
#: Makes the results of a tile, in its third argument, from its operands in the first.
Stage = Callable[[Numbers, Tile, Numbers], object]


def code_type(function: Function, source: DType, target: DType) -> DType:
    """The type of the quantized elements."""
    if isinstance(function, FakeQuantize):
        return function.through
    return source if isinstance(function, Dequantize) else target


def has_linear_text(function: Function, source: DType, scale: DType, target: DType) -> bool:
    """Whether LLVM and CUDA C have a text. That of floats is without zero points.

    Limits have none: callers choose them, each would take a text of the few that are compiled.
    """
    if not scale.is_float or scale.width > 32:
        return False
    if isinstance(function, Quantize) and function.limits is not None:
        return False
    if isinstance(function, Dequantize):
        return _has_few_bits(source) and _is_operand(target)
    assert isinstance(function, Quantize)
    kind = function.quotient_type(scale)
    is_narrow = kind in _NARROW and max(source.width, scale.width) <= 16
    if not (_is_operand(source) and (kind in (None, FLOAT32) or is_narrow)):
        return False
    if isinstance(function, FakeQuantize):
        through = function.through
        return not through.is_float and through.width <= 16 and _is_operand(target)
    return _has_few_bits(target) and not (target.is_float and is_narrow)


def _is_operand(dtype: DType) -> bool:
    return dtype is FLOAT32 or dtype in _NARROW


def _has_few_bits(dtype: DType) -> bool:
    return dtype.width <= (8 if dtype.is_float else 16) and dtype.exponent_bits != dtype.width


def work_type(function: Function, codes: DType, scale: DType, target: DType) -> DType:
    """The float of products that are rounded once, or of quotients that become floats."""
    bits = codes.mantissa_bits + 1 if codes.is_float else codes.width
    is_exact = bits + scale.mantissa_bits + 1 <= FLOAT32.mantissa_bits + 1
    is_quantized = isinstance(function, Quantize) and not isinstance(function, FakeQuantize)
    return FLOAT32 if is_quantized or is_exact or target is FLOAT32 else FLOAT64


class Linear:
    """The kernel of one call with parameters, which lie behind its operands.

    ``stage`` is a faster one of its function and types, which takes no zero points of floats.
    """

    def __init__(self, call: Call, payload: Bytes, stage: Stage | None = None) -> None:
        function, parameters = call.function, call.parameters
        assert parameters is not None
        self._source, self._target = call.input.dtype, call.output.dtype
        most = TILE if stage is None else COMPILED_TILE
        self._granularity = Granularity(call.input.shape, parameters.blocks, most)
        scales, points = memory_of(call, payload[call.input.byte_length :])
        scale, point = parameters.scale, None
        if parameters.zero_point is not None:
            point = Parameter(points, parameters.zero_point)
            point = point if point.is_point else None
        self._parameters = Parameter(scales, scale), point
        if stage is None or (point is not None and point.is_float):
            types = self._source, scale.dtype, self._target
            stage = _STAGES[type(function)](function, *types, point is not None)
        self._stage = stage

    def run(self, operands: Bytes, results: Bytes, count: int, start: int = 0) -> None:
        """Make results of ``count`` operands, of which the first is number ``start`` of the call.

        ``results`` may begin where ``operands`` do if they are no wider. Of types of 4 bits, the
        first operand begins a byte.
        """
        buffers: dict[tuple[str, Kind], Numbers] = {}
        before: tuple[Place, Tile] | None = None
        # Zero scales, infinities and NaNs raise flags, which a caller's np.seterr must not see.
        with np.errstate(all="ignore"):
            for first, last, place in self._granularity.tiles(start, start + count):
                if before is None or before[0] != place:
                    spread = partial(self._granularity.spread, place=place)
                    before = place, Tile(spread, self._parameters, buffers)
                elements = _read(operands, self._source, first - start, last - first)
                self._make(elements, before[1], results, first - start)

    def _make(self, elements: Numbers, tile: Tile, results: Bytes, first: int) -> None:
        dtype, stop = self._target, first + elements.size
        if not dtype.is_sub_byte:
            place = results[dtype.nbytes(first) : dtype.nbytes(stop)]
            self._stage(elements, tile, place.view(_held(dtype)))
            return
        patterns = tile.buffer("patterns", np.uint8, elements.size)
        self._stage(elements, tile, patterns)
        if first & 1:
            results[first // 2] |= patterns[0] << 4
            patterns, first = patterns[1:], first + 1
        results[first // 2 : dtype.nbytes(stop)] = host_memory.pack(patterns)


# Memory


def _read(memory: Bytes, dtype: DType, first: int, count: int) -> Numbers:
    """Elements as NumPy has them, or patterns of a type that it lacks."""
    stop = first + count
    if dtype.is_sub_byte:
        unpacked = np.empty(stop - first // 2 * 2, np.uint8)
        host_memory.unpack(memory[first // 2 : dtype.nbytes(stop)], unpacked)
        return unpacked[first & 1 :]
    elements = memory[dtype.nbytes(first) : dtype.nbytes(stop)]
    return elements.view(_held(dtype))


def _held(dtype: DType) -> np.dtype[Any]:
    """The type of elements in NumPy's memory."""
    return dtype.numpy if dtype.is_named_by_npy else dtype.bits


@cache
def _decoded(dtype: DType) -> npt.NDArray[np.float32]:
    """The number of each pattern of a type of at most 8 bits."""
    return np.arange(1 << dtype.width, dtype=np.uint8).view(dtype.numpy).astype(np.float32)


def _values(elements: Numbers, dtype: DType, kind: _Float, tile: Tile) -> Numbers:
    """Elements in float32 or float64, which have their numbers, in a buffer of the tile."""
    values = tile.buffer("values", kind, elements.size)
    if dtype.is_named_by_npy:
        values[:] = elements
    elif dtype.width == 16:  # bfloat16
        words = tile.buffer("words", np.uint32, elements.size)
        np.left_shift(elements, 16, out=words, dtype=np.uint32)
        values[:] = words.view(np.float32)
    elif kind is np.float32:
        # "clip" writes into ``out`` without a temporary array. No index is out of range.
        _decoded(dtype).take(elements, out=values, mode="clip")
    else:
        values[:] = _decoded(dtype).take(elements)
    return values


def _convert(values: Numbers, to: DType, out: Numbers, saturates: bool = False) -> None:
    """Convert floats of 32 or 64 bits to another type, rounded once, ties to even."""
    source = FLOAT32 if values.dtype == np.float32 else FLOAT64
    if to is source:
        out[:] = values
        return
    steps = chain(Convert(Rounding.TIES_TO_EVEN, saturates), source, to)
    if not to.is_sub_byte:
        convert(steps, source, to, values.view(np.uint8), out.view(np.uint8), values.size)
        return
    packed = np.empty(to.nbytes(values.size), np.uint8)
    convert(steps, source, to, values.view(np.uint8), packed, values.size)
    host_memory.unpack(packed, out)


def _quiet(values: Numbers) -> None:
    """Make every NaN that without sign and payload. ``argmax`` finds a NaN if there is one."""
    if np.isnan(values[values.argmax()]):
        np.copyto(values, np.nan, where=np.isnan(values))


# Quantization


def _quantizer(
    function: Quantize, source: DType, scale: DType, target: DType, has_point: bool
) -> Stage:
    quotients = _quotients(function, source, scale, target)
    if target.is_float:

        def to_floats(elements: Numbers, tile: Tile, out: Numbers) -> None:
            found = quotients(elements, tile)
            if has_point:
                point = tile.point(np.float64)
                wide = against(point, found.astype(np.float64))
                total = _odd_sum(wide, point)
                np.copyto(total, wide, where=point == 0)
                found = total.reshape(-1)
            _quiet(found)
            _convert(found, target, out, function.saturates)

        return to_floats
    limits = function.limits or ends(target)
    if target.width > 16:
        return lambda elements, tile, out: _put_wide_codes(
            quotients(elements, tile), tile.point(np.float64) if has_point else None, limits, out
        )
    levels = _levels(limits)
    held = np.int16 if target.width == 16 else np.int8

    def to_integers(elements: Numbers, tile: Tile, out: Numbers) -> None:
        sums = levels(quotients(elements, tile), tile)
        codes = out.view(held)
        np.copyto(codes, sums.view(np.int32), casting="unsafe")
        if has_point:
            point = tile.point(held)
            shifted = against(point, codes)
            shifted += point

    return to_integers


def _quotients(
    function: Quantize, source: DType, scale: DType, target: DType
) -> Callable[[Numbers, Tile], Numbers]:
    """Quotients as rounded to their type, in float32; in float64 if they stay exact."""
    kind = function.quotient_type(scale)
    are_floats = source.is_float and scale.is_float
    is_narrow = kind is not None and max(source.width, scale.width, kind.width) <= 16
    wide: _Float = np.float64
    if are_floats and (kind is FLOAT32 or is_narrow):
        wide = np.float32
    # Of an integer of at most 16 bits, numbers beyond the range of float16 are out of range.
    by_bits = wide is np.float32 and not target.is_float and target.width <= 16

    def quotients(elements: Numbers, tile: Tile) -> Numbers:
        is_wide = wide is np.float32 and source is FLOAT32
        values = elements if is_wide else _values(elements, source, wide, tile)
        found = tile.buffer("quotients", wide, values.size)
        scale = tile.scale(wide)
        np.divide(against(scale, values), scale, out=against(scale, found))
        if kind is None or kind.numpy == found.dtype:
            return found
        if by_bits:
            _quiet(found)  # a payload could be carried into the sign
            _drop(found.view(np.uint32), FLOAT32.mantissa_bits - kind.mantissa_bits)
            return found
        rounded = np.empty(found.size, _held(kind))
        _convert(found, kind, rounded)
        return _values(rounded, kind, np.float32, tile)

    return quotients


def _drop(words: Numbers, bits: int) -> None:
    """Round patterns of float32 to fewer bits of fraction, ties to even."""
    odd = words >> bits
    odd &= 1
    odd += (1 << bits - 1) - 1
    words += odd
    words &= 0xFFFFFFFF >> bits << bits


def _levels(limits: tuple[int, int]) -> Callable[[Numbers, Tile], Numbers]:
    """Sums of :data:`_GRID` and the nearest integers, so that with the zero point they saturate."""
    lowest, highest = limits

    def sums(quotients: Numbers, tile: Tile) -> Numbers:
        if quotients.dtype == np.float64:
            quotients = np.rint(quotients).astype(np.float32)
        quotients += _GRID
        words = quotients.view(np.int32)
        least, most = tile.surely_within(lowest, highest)
        first, last = words.min(), words.max()
        if first < _BASE + least or last > _BASE + most:
            # As integers NaNs are beyond infinity, or negative, which few numbers are.
            may_have_nan = first < 0 or last > FLOAT32.exponent_mask
            is_nan = np.isnan(quotients) if may_have_nan else None
            low, high = tile.window(_BASE + lowest, _BASE + highest)
            rows = against(low, words)
            if low.shape[1] == 1 and rows.shape[1] >= _CLIPPED:
                np.clip(rows, low, high, out=rows)
            else:  # np.clip takes twice as long for arrays, and for shorter rows
                np.maximum(rows, low, out=rows)
                np.minimum(rows, high, out=rows)
            if is_nan is not None:
                np.copyto(words, _BASE, where=is_nan)
        return quotients

    return sums


def _put_wide_codes(
    quotients: Numbers, point: Numbers | None, limits: tuple[int, int], out: Numbers
) -> None:
    """The nearest integers of 32 bits and the zero points, by float64, which has their sums."""
    integers = np.rint(quotients.astype(np.float64, copy=False))
    np.copyto(integers, 0, where=np.isnan(integers))
    if point is not None:
        shifted = against(point, integers)
        shifted += point
    np.copyto(out, np.clip(integers, *limits).astype(np.int64), casting="unsafe")


# Dequantization


def _dequantizer(
    _function: Function, source: DType, scale: DType, target: DType, has_point: bool
) -> Stage:
    is_wide = source.width > 16 or (source.is_float and has_point)
    kind: _Float = np.float64 if is_wide else np.float32
    bits = source.mantissa_bits + 1 if source.is_float else source.width
    put = _products(_WIDE_BITS if is_wide else bits, scale, target, source.is_float)

    def dequantize(elements: Numbers, tile: Tile, out: Numbers) -> None:
        values = _values(elements, source, kind, tile)
        if has_point:
            point = tile.point(kind)
            shifted = against(point, values)
            shifted -= point
        put(values, tile, out)

    return dequantize


def _products(bits: int, scale: DType, target: DType, of_floats: bool) -> Stage:
    """Numbers of so many bits times scales, rounded once to the target's type."""
    both = bits + scale.mantissa_bits + 1
    is_single = both <= 24 or (bits <= 24 and target is FLOAT32)
    # Integers have half of their bits from 2^16 on, differences of floats from 1 on.
    unit = 1.0 if of_floats else 2.0**16

    def put(values: Numbers, tile: Tile, out: Numbers) -> None:
        scale = tile.scale(np.float32 if is_single else np.float64)
        rows = against(scale, values)
        if is_single:
            found = out if target is FLOAT32 else values
            np.multiply(rows, scale, out=against(scale, found))
        elif both <= 53:
            found = (rows * scale).reshape(-1)
        else:
            found = _odd_product(rows, scale, unit).reshape(-1)
        if of_floats or not tile.has_finite_scales:
            _quiet(found)
        if found is not out:
            _convert(found, target, out)

    return put


def _odd_product(values: Numbers, scale: Numbers, unit: float) -> Numbers:
    """Products rounded to odd, of values in which ``unit`` divides the bits, and 24 bits."""
    upper = np.rint(values / unit) * unit
    found = _odd_sum(upper * scale, (values - upper) * scale)
    plain = values * scale
    # By a zero, parts of opposite signs have the sum +0.
    np.copyto(found, plain, where=~np.isfinite(plain) | (plain == 0))
    return found


def _odd_sum(x: Numbers, y: Numbers) -> Numbers:
    """Sums rounded to odd: of the two numbers beside an inexact one, that whose last bit is 1."""
    total: Numbers = x + y
    other = total - x
    lost = (x - (total - other)) + (y - other)
    words = total.view(np.int64)
    moved = (np.abs(lost) > 0) & (words & 1 == 0)
    words += np.where(moved, np.where((lost > 0) == (total > 0), 1, -1), 0)
    return total


def _faker(
    function: FakeQuantize, source: DType, scale: DType, target: DType, has_point: bool
) -> Stage:
    """Both ways, and no codes between: an integer less its zero point is all that is needed."""
    through = function.through
    if through.is_float or through.width > 16:
        there = _quantizer(function, source, scale, through, has_point)
        back = _dequantizer(function, through, scale, target, has_point)

        def by_codes(elements: Numbers, tile: Tile, out: Numbers) -> None:
            codes = np.empty(elements.size, _held(through))
            there(elements, tile, codes)
            back(codes, tile, out)

        return by_codes
    quotients = _quotients(function, source, scale, through)
    levels = _levels(function.limits or ends(through))
    put = _products(through.width, scale, target, of_floats=False)

    def fake(elements: Numbers, tile: Tile, out: Numbers) -> None:
        found = levels(quotients(elements, tile), tile)
        found -= _GRID
        put(found, tile, out)

    return fake


#: The makers of stages, by the kind of function.
_STAGES: dict[type[Function], Callable[[Any, DType, DType, DType, bool], Stage]] = {
    Quantize: _quantizer,
    Dequantize: _dequantizer,
    FakeQuantize: _faker,
}
