"""Arrays that differ in length, memory and shape, of operands whose results are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tensor_round.contract.dtypes import BY_NAME

from ..explain import Places
from ..patterns import ALIGNMENT
from ..reference import FLOAT_FORMATS, Bits, Flags, is_nan, width
from ..runtimes.forms import Values

Array = npt.NDArray[Any]

#: Operands of each half of a pool; a prime, so that an operand is in another lane each time it
#: comes again.
POOL = 4093
#: Different operands of a pool, at least.
ENOUGH = 16
#: Tails of every vector, neighbours of powers of two, multiples of 1,024, and lengths that 16 and
#: 20 bits cannot count.
LENGTHS = (
    *range(1, 68),
    127,
    128,
    129,
    255,
    257,
    1023,
    1024,
    1025,
    2048,
    3072,
    65535,
    65536,
    65537,
    (1 << 20) + (1 << 16) + 1,
)
#: Of a program that is started for each.
FEW_LENGTHS = (1, 7, 19, 64, 67, 1023)
#: Of arrays that are tried at several starts and with several strides: a multiple of every vector.
LENGTH = 1024
STARTS = (*range(1, 17), 32, 48, 64)
#: Of as many elements as are multiples of every vector, except their rows, and the first.
SHAPES = (
    (),
    (64, 64),
    (64, 19),
    (1, LENGTH),
    (LENGTH, 1),
    (4, 16, 16),
    (2, 4, 8, 16),
    (2, 4, 4, 4, 8),
    (2, 2, 2, 4, 4, 8),
)
#: Views of as many elements: what each is called, and how it is made of an array of so many that
#: begins so many after a boundary. The view's first element is at a boundary.
STRIDED: tuple[tuple[str, int, int, Callable[[Array], Array]], ...] = (
    ("x[::2]", 2 * LENGTH, 0, lambda x: x[::2]),
    ("x[::-1]", LENGTH, 1, lambda x: x[::-1]),
    ("stride 0", LENGTH, 0, lambda x: _of_stride_0(x)),
    ("x.T", LENGTH, 0, lambda x: x.reshape(32, 32, *x.shape[1:]).swapaxes(0, 1)),
    ("x[:, :16]", 2 * LENGTH, 0, lambda x: x.reshape(64, 32, *x.shape[1:])[:, :16]),
)
EMPTY_SHAPES = ((0,), (0, 3), (3, 0))


def _of_stride_0(x: Array) -> Array:
    """The first element again and again, in one place; NumPy knows these types' patterns alone."""
    own = x.view(f"<u{x.itemsize}")
    return as_strided(own, own.shape, (0, *own.strides[1:])).view(x.dtype)


@dataclass(frozen=True, slots=True)
class Elements:
    """What a runtime computes element by element: of which type, into which.

    ``unit`` elements are given together: a block, of whose operands none is left out.
    """

    source: str
    target: str
    unit: int = 1

    @property
    def noun(self) -> str:
        """What is given together, in English."""
        return "element" if self.unit == 1 else "block"


@dataclass(frozen=True, slots=True)
class Pool:
    """Operands, and the results that a runtime has for them wherever they are in an array.

    The first :data:`POOL` show by their results where they are from. As many are drawn from all;
    the rest are special: zeros, ties, the largest, infinities, NaNs.
    """

    bits: Bits
    results: Bits

    @classmethod
    def of(cls, bits: Bits, results: Bits, of: Elements) -> Pool:
        """Some of these, such that a result that is missing, late or elsewhere is seen.

        The first are numbers whose results are neither they nor zero, if there are enough of them.
        """
        given, found = bits.reshape(-1, of.unit), results.reshape(-1, of.unit)
        every = shows = np.arange(len(given))
        special = every[:0]
        if of.unit == 1:
            special = np.flatnonzero(np.isin(bits, _specials(of.source)))
            is_number = ~is_nan(of.source, bits) & ~is_nan(of.target, results)
            changed = is_number & ~_is_zero(results, of.target)
            if of.source == of.target:
                changed &= results != bits
            if changed.sum() < ENOUGH:
                changed = is_number & ~_is_zero(bits, of.source)
            shows = np.flatnonzero(changed) if changed.any() else every
        draw = np.random.default_rng(754)
        drawn = [draw.choice(some, POOL, replace=some.size < POOL) for some in (shows, every)]
        places = np.concatenate([*drawn, special])
        return cls(given[places].reshape(-1), found[places].reshape(-1))


def _specials(dtype: str) -> list[int]:
    """Patterns that kernels forget."""
    if dtype not in FLOAT_FORMATS:
        least = 1 << (width(dtype) - 1)
        return [0, 1, least - 1, least, 2 * least - 1]
    fmt = FLOAT_FORMATS[dtype]
    p, top = fmt.fraction_bits, fmt.infinity
    if p < 2:
        return list(range(1 << fmt.width))
    ties = ((fmt.bias + by << p) + half for by, half in ((-1, 0), (0, 1 << p - 1), (1, 1 << p - 2)))
    large = (min(fmt.bias + by << p, top - 1) for by in (p, 31, 63))
    limits = (0, 1, (1 << p) - 1, 1 << p, fmt.bias << p, top - 1, top)
    nans = (top + 1, top + (1 << p - 1), top + (1 << p - 1) + 1, fmt.sign_bit - 1)
    return [m | sign for m in (*limits, *ties, *large, *nans) for sign in (0, fmt.sign_bit)]


def _is_zero(bits: Bits, dtype: str) -> Flags:
    fmt = FLOAT_FORMATS.get(dtype)
    zero: Flags = (bits & bits.dtype.type(fmt.signless) if fmt else bits) == 0
    return zero


@dataclass(frozen=True, slots=True)
class Trial:
    """An array for one call: a view of ``room``, whose element i is the pool's ``places[i]``."""

    array: Values
    places: Places
    room: npt.NDArray[np.uint8]
    #: The bytes from the last multiple of :data:`ALIGNMENT` to the first element.
    start: int = 0
    #: The view in words.
    name: str = ""

    @property
    def bits(self) -> Bits:
        """The array's patterns, in the same memory."""
        own: Bits = self.array.view(f"<u{self.array.dtype.itemsize}")
        return own


class Trials:
    """Makes trials of a pool; each begins at another operand."""

    def __init__(self, pool: Pool, of: Elements) -> None:
        self.pool = pool
        self._unit = of.unit
        self._dtype = BY_NAME[of.source].numpy
        self._special = pool.bits.size // of.unit - 2 * POOL
        self._next = 0

    def line(self, length: int, start: int = 0, *, drawn: bool = False) -> Trial:
        """One dimension, ``start`` elements after a boundary.

        ``drawn``: of operands that are drawn from all, special ones at both ends.
        """
        places = (self._next + np.arange(length)) % POOL
        if drawn:
            places += POOL
            turn = 2 * POOL + (self._next + np.arange(self._special)) % max(1, self._special)
            places[-turn.size :] = turn[-length:]
            if length > 4 * turn.size:
                places[: turn.size] = turn[::-1]
        array, each, room = self._room(places, start)
        return Trial(array, each, room, start * self._dtype.itemsize)

    def strided(self, *, ranks: bool) -> Iterator[Trial]:
        """Views with other strides than those of packed memory; with ``ranks`` of matrices too."""
        rows = (-1,) if self._unit == 1 else (-1, self._unit)
        for name, size, start, view in STRIDED[: None if ranks else 3]:
            array, places, room = self._room(self._shown(size), start * self._unit)
            yield Trial(view(array.reshape(rows)), view(places.reshape(rows)), room, name=name)

    def shaped(self) -> Iterator[Trial]:
        """Packed arrays of several dimensions, and of none."""
        for shape in SHAPES:
            if shape or self._unit == 1:
                array, places, room = self._room(self._shown(int(np.prod(shape))))
                whole = (*shape[:-1], shape[-1] * self._unit) if shape else ()
                yield Trial(array.reshape(whole), places.reshape(whole), room, name=f"{whole}")

    def empty(self, *, ranks: bool) -> Iterator[Trial]:
        """Arrays without elements; with ``ranks`` of several dimensions too."""
        for shape in EMPTY_SHAPES[: None if ranks and self._unit == 1 else 1]:
            array, places, room = self._room(self._shown(0))
            yield Trial(array.reshape(shape), places.reshape(shape), room, name=f"{shape}")

    def _shown(self, size: int) -> Places:
        return (self._next + np.arange(size)) % POOL

    def _room(self, units: Places, start: int = 0) -> tuple[Values, Places, npt.NDArray[np.uint8]]:
        """An array of new memory, with as much on both sides: none that is read is foreign."""
        self._next += units.size + 1
        places = (units[:, None] * self._unit + np.arange(self._unit)).reshape(-1)
        size, itemsize = places.size, self._dtype.itemsize
        room = np.zeros(3 * size * itemsize + 3 * ALIGNMENT * itemsize, np.uint8)
        begins = (size + ALIGNMENT) * itemsize
        begins += -(room.ctypes.data + begins) % ALIGNMENT + start * itemsize
        bits = room[begins : begins + size * itemsize].view(self.pool.bits.dtype)
        bits[:] = self.pool.bits[places]
        return bits.view(self._dtype), places, room
