"""The scales and zero points of a call, and those of a tile's elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.layout import Layout

from .. import Bytes
from .granularity import TILE, Numbers

Kind = type[np.number[Any]]


def memory_of(call: Call, given: Bytes) -> tuple[Bytes, Bytes]:
    """The bytes of a call's scales, and those of its zero points: none without any.

    ``given`` are those behind the operands in its payload.
    """
    parameters = call.parameters
    assert parameters is not None
    if parameters.constants is not None:
        given = np.frombuffer(parameters.constants, np.uint8)
    length = parameters.scale.byte_length
    return given[:length], given[length:]


class Parameter:
    """The numbers of a scale or zero point, one for each block.

    Many have other types in tiles alone: else they took several times the memory of their payload.
    """

    def __init__(self, memory: Bytes, layout: Layout) -> None:
        self._elements = host_memory.elements(memory[: layout.byte_length], layout).reshape(-1)
        self._made: dict[Kind, Numbers] = {}
        self.is_float = layout.dtype.is_float

    @cached_property
    def is_finite(self) -> bool:
        """Whether none is infinite or NaN."""
        return all(self._of_parts(lambda numbers: np.isfinite(numbers).all()))

    @cached_property
    def is_point(self) -> bool:
        """Whether any shifts, as a +0 does not."""
        return any(self._of_parts(lambda numbers: numbers.any() or np.signbit(numbers).any()))

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The least and the most of integers."""
        found = self._of_parts(lambda numbers: (numbers.min(), numbers.max()))
        return int(min(least for least, _ in found)), int(max(most for _, most in found))

    def _of_parts(self, of: Callable[[Numbers], Any]) -> list[Any]:
        """What a function makes of the numbers in float64, part by part."""
        with np.errstate(all="ignore"):  # a signalling NaN
            return [
                of(_numbers(self._elements[start : start + TILE], np.float64))
                for start in range(0, self._elements.size, TILE)
            ]

    def of_tile(self, spread: Callable[[Numbers], Numbers], kind: Kind) -> Numbers:
        """The numbers of a tile, as :meth:`.Granularity.spread` makes them of all, in a type."""
        if self._elements.size > TILE:
            return _numbers(spread(self._elements), kind)
        if kind not in self._made:
            self._made[kind] = _numbers(self._elements, kind)
        return spread(self._made[kind])


def _numbers(elements: Numbers, kind: Kind) -> Numbers:
    """The numbers of elements in float32 or float64, or the last bits of integers."""
    first = np.int32 if issubclass(kind, np.integer) else kind
    return elements.astype(first).astype(kind, copy=False)


class Tile:
    """The parameters of a tile's elements, and memory that all tiles of a run share."""

    def __init__(
        self,
        spread: Callable[[Numbers], Numbers],
        parameters: tuple[Parameter, Parameter | None],
        buffers: dict[tuple[str, Kind], Numbers],
    ) -> None:
        self._spread = spread
        self._scale, self._point = parameters
        self._buffers = buffers
        self._made: dict[tuple[str, Kind], Numbers] = {}
        self._window: tuple[Numbers, Numbers] | None = None
        self._zeros: Numbers | None = None

    @property
    def has_finite_scales(self) -> bool:
        """Whether no scale of the call is infinite or NaN."""
        return self._scale.is_finite

    def scale(self, kind: Kind) -> Numbers:
        """The scales, for :func:`against`."""
        return self._of("scale", self._scale, kind)

    def point(self, kind: Kind) -> Numbers:
        """The zero points, likewise; the call must have some."""
        assert self._point is not None
        return self._of("point", self._point, kind)

    def _of(self, name: str, parameter: Parameter, kind: Kind) -> Numbers:
        if (name, kind) not in self._made:
            self._made[name, kind] = parameter.of_tile(self._spread, kind)
        return self._made[name, kind]

    def shift(self) -> Numbers:
        """The zero points in int32, zeros without any, one for each scale."""
        if self._point is not None:
            return self.point(np.int32)
        if self._zeros is None:
            self._zeros = np.zeros(self.scale(np.float32).shape, np.int32)
        return self._zeros

    def buffer(self, name: str, kind: Kind, count: int) -> Numbers:
        """Memory for elements of a type, which the next tile overwrites.

        New memory of this size is mapped, and costs a page fault a page.
        """
        found = self._buffers.get((name, kind))
        if found is None or found.size < count:
            found = self._buffers[name, kind] = np.empty(max(TILE, count), kind)
        return found[:count]

    @property
    def _ends(self) -> tuple[int, int]:
        """The least and the most zero point of the call."""
        return (0, 0) if self._point is None else self._point.ends

    def surely_within(self, lowest: int, highest: int) -> tuple[int, int]:
        """The ends of what no zero point of the call lets saturate in a type with these ends."""
        least, most = self._ends
        return lowest - least, highest - most

    def window(self, lowest: int, highest: int) -> tuple[Numbers, Numbers]:
        """The ends of what the zero points leave of those of a type, which are always the same.

        There is one of each if all zero points are equal.
        """
        if self._window is None:
            least, most = self._ends
            shift = self.point(np.int32) if least < most else np.full((1, 1), least, np.int32)
            self._window = lowest - shift, highest - shift
        return self._window
