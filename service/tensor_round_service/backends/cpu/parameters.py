"""The scales and zero points of a call, and those of a tile's elements."""

from __future__ import annotations

from collections.abc import Callable
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
        self.is_finite = True
        #: Whether it is a zero point, which +0 is not.
        self.is_point = False
        found: list[float] = []
        with np.errstate(all="ignore"):  # a signalling NaN
            for start in range(0, layout.element_count, TILE):
                numbers = _numbers(self._elements[start : start + TILE], np.float64)
                self.is_finite = self.is_finite and bool(np.isfinite(numbers).all())
                self.is_point |= bool(numbers.any() or np.signbit(numbers).any())
                if not self.is_float:
                    found += [numbers.min(), numbers.max()]
        #: The ends of those that are integers.
        self.least, self.most = int(min(found, default=0)), int(max(found, default=0))

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

    def surely_within(self, lowest: int, highest: int) -> tuple[int, int]:
        """The ends of what no zero point of the call lets saturate in a type with these ends."""
        if self._point is None:
            return lowest, highest
        return lowest - self._point.least, highest - self._point.most

    def window(self, lowest: int, highest: int) -> tuple[Numbers, Numbers]:
        """The ends of what the zero points leave of those of a type, which are always the same."""
        if self._window is None:
            self._window = lowest - self.shift(), highest - self.shift()
        return self._window
