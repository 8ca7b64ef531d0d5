"""Arrays that differ in length, memory and shape, of operands whose results are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..reference import FLOATS, WIDTHS, Bits, Flags, is_nan
from ..runtimes.forms import ALIGNMENT, Values

Places = npt.NDArray[np.intp]

#: Operands of a pool; a prime, so that an operand is in another lane each time it comes again.
POOL = 4093
#: Different operands of a pool, at least.
ENOUGH = 16
#: Tails of every vector, neighbours of powers of two, and lengths that 16 and 20 bits cannot count.
LENGTHS = (
    *range(1, 68),
    *(127, 128, 129, 255, 257, 1023, 1024, 1025, 65535, 65537, (1 << 20) + (1 << 16) + 1),
)
#: Of a program that is started for each.
FEW_LENGTHS = (1, 7, 19, 64, 67, 1023)
#: Of arrays that are tried at several starts and with several strides: a multiple of every vector.
LENGTH = 1024
STARTS = (*range(1, 17), 32, 48, 64)
#: Of as many elements as are multiples of every vector, except their rows.
SHAPES = ((64, 64), (64, 19), (1, LENGTH), (LENGTH, 1), (4, 16, 16), (2, 4, 8, 16))
#: Views of as many elements: what each is called, and how it is made of an array of so many that
#: begins so many after a boundary. The view's first element is at a boundary.
STRIDED: tuple[tuple[str, int, int, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]], ...] = (
    ("x[::2]", 2 * LENGTH, 0, lambda x: x[::2]),
    ("x[::-1]", LENGTH, 1, lambda x: x[::-1]),
    ("x.T", LENGTH, 0, lambda x: x.reshape(32, 32).T),
    ("x[:, :16]", 2 * LENGTH, 0, lambda x: x.reshape(64, 32)[:, :16]),
)
EMPTY_SHAPES = ((0,), (0, 3), (3, 0))


@dataclass(frozen=True, slots=True)
class Pool:
    """Operands, and the results that a runtime has for them wherever they are in an array."""

    bits: Bits
    results: Bits

    @classmethod
    def of(cls, bits: Bits, results: Bits, dtype: str) -> Pool:
        """Some of these, such that a result that is missing, late or elsewhere is seen.

        They are numbers that rounding changes, and not to zero, if there are enough of them.
        """
        changed = (results != bits) & ~_is_zero(results, dtype)
        changed &= ~is_nan(dtype, bits) & ~is_nan(dtype, results)
        places = np.flatnonzero(changed)
        if places.size < ENOUGH:
            places = np.flatnonzero(~is_nan(dtype, bits) & ~_is_zero(bits, dtype))
        drawn = np.random.default_rng(754).choice(places, POOL, replace=places.size < POOL)
        return cls(bits[drawn], results[drawn])


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


def _is_zero(bits: Bits, dtype: str) -> Flags:
    signless = FLOATS[dtype].sign_bit - 1 if dtype in FLOATS else -1 % (1 << WIDTHS[dtype])
    zero: Flags = (bits & bits.dtype.type(signless)) == 0
    return zero


class Trials:
    """Makes trials of a pool; each begins at another operand."""

    def __init__(self, pool: Pool, dtype: str) -> None:
        self.pool = pool
        self._dtype = BY_NAME[dtype].numpy
        self._next = 0

    def line(self, length: int, start: int = 0) -> Trial:
        """One dimension, ``start`` elements after a boundary."""
        array, places, room = self._room(length, start)
        return Trial(array, places, room, start * self._dtype.itemsize)

    def strided(self, *, ranks: bool) -> Iterator[Trial]:
        """Views with other strides than those of packed memory; with ``ranks`` of matrices too."""
        for name, size, start, view in STRIDED[: None if ranks else 2]:
            array, places, room = self._room(size, start)
            yield Trial(view(array), view(places), room, name=name)

    def shaped(self) -> Iterator[Trial]:
        """Packed arrays of several dimensions."""
        for shape in SHAPES:
            array, places, room = self._room(int(np.prod(shape)))
            yield Trial(array.reshape(shape), places.reshape(shape), room, name=f"{shape}")

    def empty(self, *, ranks: bool) -> Iterator[Trial]:
        """Arrays without elements; with ``ranks`` of several dimensions too."""
        for shape in EMPTY_SHAPES[: None if ranks else 1]:
            array, places, room = self._room(0)
            yield Trial(array.reshape(shape), places.reshape(shape), room, name=f"{shape}")

    def _room(self, size: int, start: int = 0) -> tuple[Values, Places, npt.NDArray[np.uint8]]:
        """An array of new memory, with as much on both sides: none that is read is foreign."""
        places = (self._next + np.arange(size)) % POOL
        self._next += size + 1
        itemsize = self._dtype.itemsize
        room = np.zeros(3 * size * itemsize + 3 * ALIGNMENT * itemsize, np.uint8)
        begins = (size + ALIGNMENT) * itemsize
        begins += -(room.ctypes.data + begins) % ALIGNMENT + start * itemsize
        bits = room[begins : begins + size * itemsize].view(self.pool.bits.dtype)
        bits[:] = self.pool.bits[places]
        return bits.view(self._dtype), places, room
