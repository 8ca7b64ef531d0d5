"""The scale and the zero point of a quantization: as callers give them, and their parts for tiles.

A tensor with one scale is cut as any other, and each tile carries the scale. One with a scale for
each index of an axis, or each block, is cut in C order, so that a tile has whole blocks or lies
within one, and carries its blocks' scales. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..contract.array_forms import read_array
from ..contract.call import Call
from ..contract.call import Parameters as Layouts
from ..contract.dtypes import BY_NAME, DType
from ..contract.errors import InvalidArgument
from ..contract.host_memory import Array, bits, pack
from ..contract.operators.operator import PreparedDescriptor
from .tiles import Preparing, Tile, cut

#: The types that a scale has if it is given as a number.
SCALES = ("float32", "float16", "bfloat16")

#: Dtypes and shapes of parameters, as an operator's ``prepare`` takes them.
Types = tuple[tuple[str, tuple[int, ...]] | None, ...]


class Parameter(NamedTuple):
    """A scale or a zero point: the canonical name of its dtype, and its elements."""

    dtype: str
    array: Array

    def repeated(self, shape: tuple[int, ...]) -> Parameter:
        """A number as an array of that shape; an array as it is."""
        return self if self.array.ndim else self._replace(array=np.broadcast_to(self.array, shape))

    @property
    def payload(self) -> bytes:
        """The elements on the wire."""
        if BY_NAME[self.dtype].is_sub_byte:
            return pack(self.array).tobytes()
        elements = bits(self.array)
        return elements.astype(elements.dtype.newbyteorder("<"), copy=False).tobytes()


class Parameters(NamedTuple):
    """The parameters of one call or tile, in the shapes in which its descriptor has them.

    There is no scale where the descriptor has its value.
    """

    scale: Parameter | None
    zero_point: Parameter | None

    @property
    def types(self) -> Types:
        """Their dtypes and shapes."""
        return tuple(None if one is None else (one.dtype, one.array.shape) for one in self)

    def behind(self, call: Call) -> bytes:
        """The bytes of a call's payload behind the elements: padding, and the parameters."""
        assert call.parameters is not None
        pairs = zip(self, (call.parameters.scale, call.parameters.zero_point), strict=True)
        given = [(one.payload, layout) for one, layout in pairs if one and layout]
        padding = call.input.byte_length - call.input.element_bytes
        return b"".join(
            [bytes(padding), *(part.ljust(layout.byte_length, b"\0") for part, layout in given)]
        )

    def cut(
        self,
        operator: Preparing,
        prepared: PreparedDescriptor,
        source: Array,
        target: Array,
        tile_bytes: int,
        *,
        aliased: bool,
    ) -> Tile | Iterator[Tile]:
        """A tensor that fits as one tile, else its tiles; see :func:`.tiles.cut`."""
        layouts = prepared.call.parameters
        assert layouts is not None
        if layouts.scale.element_count == 1:
            one = _OfOneScale(operator, tuple(each and (each.dtype, ()) for each in self))
            tiles = cut(one, prepared, source, target, tile_bytes, aliased=aliased)
            if isinstance(tiles, Tile):
                return tiles._replace(parameters=self)
            return (tile._replace(parameters=self) for tile in tiles)
        most = max(source.nbytes, target.nbytes)
        if most <= tile_bytes or self.scale is None:
            return Tile(prepared, source, target, aliased, self)
        limit = max(1, tile_bytes * source.size // most)
        boxes = _boxes(source.shape, layouts.blocks, limit)
        return _tiles(operator, prepared, source, target, self, boxes, aliased)

    def of(self, box: tuple[slice, ...], layouts: Layouts) -> Parameters:
        """Those of a part of the operand."""
        place = tuple(
            slice(part.start // block, -(-part.stop // block)) if count > 1 else slice(None)
            for part, block, count in zip(box, layouts.blocks, layouts.scale.shape, strict=True)
        )

        def part_of(one: Parameter | None) -> Parameter | None:
            if one is None:
                return None
            part = one.array.reshape(layouts.scale.shape)[place]
            # A vector is along one axis of the operand.
            return one._replace(array=part if one.array.ndim == len(box) else part.reshape(-1))

        return Parameters(*map(part_of, self))


def read_parameters(
    scale: Any, zero_point: Any, scale_type: str | None, point_type: str
) -> Parameters:
    """The parameters that a caller gave.

    Python's numbers, alone or in lists, become of the types: a scale is rounded once, to
    ``float32`` if ``scale_type`` is no type of scales; a zero point must be a number of its type.
    Arrays keep their dtypes. A number beside several of the other is repeated. Raises
    :class:`InvalidArgument`.
    """
    scale_type = scale_type if scale_type in SCALES else "float32"
    given = {"scale": (scale, scale_type), "zero_point": (zero_point, point_type)}
    found = [None if x is None else _read(x, name, dtype) for name, (x, dtype) in given.items()]
    shape = next((one.array.shape for one in found if one and one.array.ndim), ())
    return Parameters(*(one and one.repeated(shape) for one in found))


def is_number(x: Any) -> bool:
    """Whether these are Python's numbers, which have no type of elements.

    NumPy's ``float64`` is a ``float``, and its ``int64``, no zero point's type, counts as ``int``.
    """
    return isinstance(x, int | float | list | tuple | np.int64)


def _read(x: Any, name: str, dtype: str) -> Parameter:
    numbers = np.asarray(x) if type(x) in (float, int) else None  # most callers' forms
    if numbers is None or numbers.dtype.kind == "O":
        operand = read_array(x, name)
        if not is_number(x):
            return Parameter(operand.dtype, operand.array)
        numbers = operand.array
    kind = BY_NAME[dtype]
    if name == "scale":
        numbers = _rounded(numbers, kind)
    else:
        with np.errstate(all="ignore"):
            is_of_type = np.array_equal(numbers.astype(kind.numpy).astype(numbers.dtype), numbers)
        if not is_of_type:
            raise InvalidArgument(f"{name} must be a number of {dtype}, got {x!r:.60}")
    with np.errstate(all="ignore"):
        return Parameter(dtype, numbers.astype(kind.numpy))


def _rounded(numbers: Array, dtype: DType) -> Array:
    """Numbers rounded to the nearest of a float type; ml_dtypes rounds twice, by ``float32``."""
    wide = numbers.astype(np.float64)
    _, exponents = np.frexp(wide)
    steps = np.maximum(exponents, 2 - dtype.exponent_bias) - dtype.mantissa_bits - 1
    rounded: Array = np.ldexp(np.rint(np.ldexp(wide, -steps)), steps)
    return rounded


class _OfOneScale(NamedTuple):
    """An operator on tensors that have one scale."""

    operator: Preparing
    types: Types

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> PreparedDescriptor:
        """The prepared descriptor of a part."""
        return self.operator.prepare(dtype, shape, *self.types)

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape of ``count`` elements."""
        return self.operator.flat_shape(count)


def _tiles(
    operator: Preparing,
    prepared: PreparedDescriptor,
    source: Array,
    target: Array,
    parameters: Parameters,
    boxes: Iterator[tuple[slice, ...]],
    aliased: bool,
) -> Iterator[Tile]:
    whole = prepared.call
    assert whole.parameters is not None
    for box in boxes:
        own = parameters.of(box, whole.parameters)
        part = operator.prepare(whole.input.dtype.name, source[box].shape, *own.types)
        yield Tile(part, source[box], target[box], aliased, own)


def _boxes(
    shape: tuple[int, ...], blocks: tuple[int, ...], limit: int
) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most ``limit`` elements that cover a shape in C order.

    Each has whole blocks along a dimension, or lies within one.
    """
    axis, inner = len(shape) - 1, 1
    while inner * shape[axis] <= limit:
        inner *= shape[axis]
        axis -= 1
    size, block, rows = shape[axis], blocks[axis], limit // inner
    whole = max(rows - rows % block, block)
    rest = tuple(slice(0, each) for each in shape[axis + 1 :])
    for outer in np.ndindex(shape[:axis]):
        before = tuple(slice(at, at + 1) for at in outer)
        for begin in range(0, size, whole):
            end = min(begin + whole, size)
            for start in range(begin, end, rows):
                yield (*before, slice(start, min(start + rows, end)), *rest)
