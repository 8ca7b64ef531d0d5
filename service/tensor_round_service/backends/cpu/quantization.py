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
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, Dequantize, FakeQuantize, Quantize
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from .. import Bytes
from .conversion_rule import ends
from .conversions import FLOAT32, FLOAT64, chain, convert
from .granularity import Granularity, Numbers, Place

#: The sum of this and an integer below 2^22 has that integer in its last bits.
_GRID = np.float32(1.5 * 2**23)
_BASE = int(_GRID.view(np.int32))
#: Operands from this size on are split among threads.
SPLIT_BYTES = 2 << 20
#: Bits of a difference of 32-bit integers, and of one of 8-bit floats in units of the least.
_WIDE_BITS = 34

#: Makes the results of a tile from its operands, or an intermediate result from another.
Stage = Callable[[Numbers, "Shared"], Numbers]


@dataclass(frozen=True, slots=True)
class Window:
    """The patterns of the least and the largest sum that saturation leaves, of each element.

    From ``least`` to ``most`` no element of the tile saturates.
    """

    low: Any
    high: Any
    least: int
    most: int


@dataclass(eq=False)
class Shared:
    """The parameters of a tile: each a number, or an array with one for each element."""

    #: In float64, which has all numbers of scales and zero points.
    scale: Any
    point: Any | None
    _window: Window | None = None

    @cached_property
    def single_scale(self) -> Any:
        """The scale in float32."""
        return self.scale.astype(np.float32)

    @cached_property
    def single_point(self) -> Any:
        """The zero point in float32; it must have one."""
        return _present(self.point).astype(np.float32)

    @cached_property
    def byte_point(self) -> Any:
        """The last 8 bits of the zero point."""
        return self.short_point.astype(np.int8)

    @cached_property
    def short_point(self) -> Any:
        """The last 16 bits of the zero point."""
        return _present(self.point).astype(np.int32).astype(np.int16)

    @cached_property
    def is_finite(self) -> bool:
        """Whether no scale is infinite or NaN."""
        return bool(np.isfinite(self.scale).all())

    def scale_in(self, dtype: type[np.floating[Any]]) -> Any:
        """The scale in float32 or float64."""
        return self.single_scale if dtype is np.float32 else self.scale

    def window(self, lowest: int, highest: int) -> Window:
        """The window of a type with these ends, always the same."""
        if self._window is None:
            shift = np.int32(0) if self.point is None else self.point.astype(np.int32)
            low, high = _BASE + lowest - shift, _BASE + highest - shift
            self._window = Window(low, high, int(np.max(low)), int(np.min(high)))
        return self._window


def _present(point: Any | None) -> Any:
    assert point is not None
    return point


class Linear:
    """The kernel of one call with parameters, which lie behind its operands."""

    def __init__(self, call: Call, payload: Bytes) -> None:
        function, parameters = call.function, call.parameters
        assert parameters is not None
        self._source, self._target = call.input.dtype, call.output.dtype
        self._granularity = Granularity(call.input.shape, parameters.blocks)
        behind = call.input.byte_length
        scale, point = parameters.scale, parameters.zero_point
        self._scale = _numbers_of(payload[behind:], scale)
        self._point = None
        if point is not None:
            found = _numbers_of(payload[behind + scale.byte_length :], point)
            if found.any() or np.signbit(found).any():
                self._point = found
        has_point = self._point is not None
        if isinstance(function, Dequantize):
            self._stage = _dequantizer(self._source, scale.dtype, self._target, has_point)
        elif isinstance(function, FakeQuantize):
            self._stage = _faker(function, self._source, scale.dtype, self._target, has_point)
        else:
            assert isinstance(function, Quantize)
            self._stage = _quantizer(function, self._source, scale.dtype, self._target, has_point)

    def run(self, operands: Bytes, results: Bytes, count: int, start: int = 0) -> None:
        """Make results of ``count`` operands, of which the first is number ``start`` of the call.

        ``results`` may begin where ``operands`` do if they are no wider. Of types of 4 bits, the
        first operand begins a byte.
        """
        before: tuple[Place, Shared] | None = None
        # Zero scales, infinities and NaNs raise flags, which a caller's np.seterr must not see.
        with np.errstate(all="ignore"):
            for first, last, place in self._granularity.tiles(start, start + count):
                if before is None or before[0] != place:
                    before = place, self._shared(place)
                elements = _read(operands, self._source, first - start, last - first)
                made = self._stage(elements, before[1])
                _write(made, results, self._target, first - start)

    def _shared(self, place: Place) -> Shared:
        spread = self._granularity.spread
        point = None if self._point is None else spread(self._point, place)
        return Shared(spread(self._scale, place), point)


# Memory


def _numbers_of(memory: Bytes, layout: Layout) -> npt.NDArray[np.float64]:
    """The numbers of parameters, in C order; they may be misaligned."""
    elements = host_memory.elements(memory[: layout.byte_length], layout)
    with np.errstate(all="ignore"):  # a signalling NaN
        return elements.astype(np.float64).reshape(-1)


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


def _write(results: Numbers, memory: Bytes, dtype: DType, first: int) -> None:
    """Put results in their places."""
    if not dtype.is_sub_byte:
        place = memory[dtype.nbytes(first) : dtype.nbytes(first + results.size)]
        place.view(results.dtype)[:] = results
        return
    patterns = results.view(np.uint8)
    if first & 1:
        memory[first // 2] |= patterns[0] << 4
        patterns, first = patterns[1:], first + 1
    memory[first // 2 : dtype.nbytes(first + patterns.size)] = host_memory.pack(patterns)


@cache
def _decoded(dtype: DType) -> npt.NDArray[np.float32]:
    """The number of each pattern of a type of at most 8 bits."""
    return np.arange(1 << dtype.width, dtype=np.uint8).view(dtype.numpy).astype(np.float32)


def _values(elements: Numbers, dtype: DType, wide: type[np.floating[Any]]) -> Numbers:
    """Elements in float32 or float64, which must have their numbers; maybe the same array."""
    if dtype.is_named_by_npy:
        return elements.astype(wide, copy=False)
    if dtype.width == 16:  # bfloat16
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(wide, copy=False)
    return _decoded(dtype).take(elements).astype(wide, copy=False)


def _converted(values: Numbers, to: DType, saturates: bool = False) -> Numbers:
    """Floats of 32 or 64 bits as patterns of another type, rounded once, ties to even."""
    source = FLOAT32 if values.dtype == np.float32 else FLOAT64
    if to is source:
        return values
    out = np.empty(to.nbytes(values.size), np.uint8)
    steps = chain(Convert(Rounding.TIES_TO_EVEN, saturates), source, to)
    convert(steps, source, to, values.view(np.uint8), out, values.size)
    if not to.is_sub_byte:
        return out.view(to.bits)
    patterns = np.empty(values.size, np.uint8)
    host_memory.unpack(out, patterns)
    return patterns


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

        def to_floats(elements: Numbers, shared: Shared) -> Numbers:
            found = quotients(elements, shared)
            if has_point:
                wide = found.astype(np.float64)
                found = _odd_sum(wide, shared.point)
                np.copyto(found, wide, where=shared.point == 0)
            _quiet(found)
            return _converted(found, target, function.saturates)

        return to_floats
    if target.width > 16:
        return lambda elements, shared: _wide_codes(quotients(elements, shared), shared, target)
    levels = _levels(target)
    is_short = target.width == 16

    def to_integers(elements: Numbers, shared: Shared) -> Numbers:
        sums = levels(quotients(elements, shared), shared)
        codes: Numbers = sums.view(np.int32).astype(np.int16 if is_short else np.int8)
        if has_point:
            codes += shared.short_point if is_short else shared.byte_point
        return codes

    return to_integers


def _quotients(function: Quantize, source: DType, scale: DType, target: DType) -> Stage:
    """Quotients as rounded to their type, in float32; in float64 if they stay exact."""
    kind = function.quotient_type(scale)
    are_floats = source.is_float and scale.is_float
    is_narrow = kind is not None and max(source.width, scale.width, kind.width) <= 16
    wide: type[np.floating[Any]] = np.float64
    if are_floats and (kind is FLOAT32 or is_narrow):
        wide = np.float32
    # Of an integer of at most 16 bits, numbers beyond the range of float16 are out of range.
    by_bits = wide is np.float32 and not target.is_float and target.width <= 16

    def quotients(elements: Numbers, shared: Shared) -> Numbers:
        found: Numbers = _values(elements, source, wide) / shared.scale_in(wide)
        if kind is None or kind.numpy == found.dtype:
            return found
        if by_bits:
            _quiet(found)  # a payload could be carried into the sign
            _drop(found.view(np.uint32), FLOAT32.mantissa_bits - kind.mantissa_bits)
            return found
        return _values(_converted(found, kind).view(_held(kind)), kind, np.float32)

    return quotients


def _drop(words: Numbers, bits: int) -> None:
    """Round patterns of float32 to fewer bits of fraction, ties to even."""
    odd = words >> bits
    odd &= 1
    odd += (1 << bits - 1) - 1
    words += odd
    words &= 0xFFFFFFFF >> bits << bits


def _levels(target: DType) -> Stage:
    """Sums of :data:`_GRID` and the nearest integers, so that with the zero point they saturate."""
    lowest, highest = ends(target)

    def sums(quotients: Numbers, shared: Shared) -> Numbers:
        if quotients.dtype == np.float64:
            quotients = np.rint(quotients).astype(np.float32)
        quotients += _GRID
        words = quotients.view(np.int32)
        window = shared.window(lowest, highest)
        if words.min() < window.least or words.max() > window.most:  # so are all NaNs
            has_nan = np.isnan(quotients[quotients.argmax()])
            is_nan = np.isnan(quotients) if has_nan else None
            if np.ndim(window.low) == 0:
                np.clip(words, window.low, window.high, out=words)
            else:  # np.clip takes twice as long for arrays
                np.maximum(words, window.low, out=words)
                np.minimum(words, window.high, out=words)
            if is_nan is not None:
                np.copyto(words, _BASE, where=is_nan)
        return quotients

    return sums


def _wide_codes(quotients: Numbers, shared: Shared, target: DType) -> Numbers:
    """The nearest integers of 32 bits and the zero points, by float64, which has their sums."""
    lowest, highest = ends(target)
    integers = np.rint(quotients.astype(np.float64, copy=False))
    np.copyto(integers, 0, where=np.isnan(integers))
    if shared.point is not None:
        integers += shared.point
    return np.clip(integers, lowest, highest).astype(np.int64).astype(target.numpy)


# Dequantization


def _dequantizer(source: DType, scale: DType, target: DType, has_point: bool) -> Stage:
    is_wide = source.width > 16 or (source.is_float and has_point)
    wide: type[np.floating[Any]] = np.float64 if is_wide else np.float32
    bits = source.mantissa_bits + 1 if source.is_float else source.width
    product = _products(_WIDE_BITS if is_wide else bits, scale, target, source.is_float)

    def dequantize(elements: Numbers, shared: Shared) -> Numbers:
        values = _values(elements, source, wide)
        if has_point:
            values -= shared.point if is_wide else shared.single_point
        return product(values, shared)

    return dequantize


def _products(bits: int, scale: DType, target: DType, of_floats: bool) -> Stage:
    """Numbers of so many bits times scales, rounded once to the target's type."""
    both = bits + scale.mantissa_bits + 1
    is_single = both <= 24 or (bits <= 24 and target is FLOAT32)
    # Integers have half of their bits from 2^16 on, differences of floats from 1 on.
    unit = 1.0 if of_floats else 2.0**16

    def product(values: Numbers, shared: Shared) -> Numbers:
        if is_single:
            found = values
            found *= shared.single_scale
        elif both <= 53:
            found = values * shared.scale
        else:
            found = _odd_product(values, shared.scale, unit)
        if of_floats or not shared.is_finite:
            _quiet(found)
        return _converted(found, target)

    return product


def _odd_product(values: Numbers, scale: Any, unit: float) -> Numbers:
    """Products rounded to odd, of values in which ``unit`` divides the bits, and 24 bits."""
    upper = np.rint(values / unit) * unit
    found = _odd_sum(upper * scale, (values - upper) * scale)
    plain = values * scale
    np.copyto(found, plain, where=~np.isfinite(plain))
    return found


def _odd_sum(x: Numbers, y: Any) -> Numbers:
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
        back = _dequantizer(through, scale, target, has_point)
        return lambda elements, shared: back(there(elements, shared), shared)
    quotients = _quotients(function, source, scale, through)
    levels = _levels(through)
    product = _products(through.width, scale, target, of_floats=False)

    def fake(elements: Numbers, shared: Shared) -> Numbers:
        found = levels(quotients(elements, shared), shared)
        found -= _GRID
        return product(found, shared)

    return fake
