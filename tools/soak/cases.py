"""Tensors of every type and size, and the bits that rounding each must give."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np

from support.cases.array_cases import Array, bits, expected_bits, patterns
from tensor_round.conformance.reference import ROUNDINGS, WIDTHS
from tensor_round.dtypes import BY_NAME, DType

#: The largest tensor, in bytes.
MOST_BYTES = 4 << 20
#: Elements after which one repeats; a prime, so that no tile or block lies like another.
PERIOD = 65_521


@dataclass(frozen=True)
class Case:
    """A tensor of one dimension, and the patterns of its result, by the tests' own reference."""

    x: Array
    dtype: DType
    rounding: str
    expected: Array

    @classmethod
    def drawn(
        cls, chance: random.Random, most_bytes: int = MOST_BYTES, dtype: str | None = None
    ) -> Case:
        """Any type and direction; sizes from none, each power of two as likely as another."""
        name = dtype or chance.choice(list(WIDTHS))
        rounding = chance.choice(ROUNDINGS)
        x, expected = _repeating(name, rounding)
        most = most_bytes // x.itemsize
        size = 0 if chance.random() < 0.03 else int(most ** chance.random())
        start = chance.randrange(PERIOD)
        places = np.arange(start, start + size) % PERIOD
        return cls(x[places], BY_NAME[name], rounding, expected[places])

    @property
    def payload(self) -> bytes:
        """The tensor's bytes."""
        return self.x.tobytes()

    def shape(self, chance: random.Random) -> list[int]:
        """One of the shapes that it may have."""
        size = self.x.size
        shapes = [[size], [1, size], [size, 1]]
        shapes += [[size // n, n] for n in (2, 3, 8) if size % n == 0]
        return chance.choice(shapes)

    def check(self, got: bytes | memoryview) -> None:
        """Raise :class:`Wrong` if these are not the result's bytes."""
        if bytes(got) != self.expected.tobytes():
            raise Wrong(f"{self}: {len(got)} bytes, not the {self.expected.nbytes} right ones")

    def check_array(self, got: Array) -> None:
        """Raise :class:`Wrong` if this is not the result."""
        if got.dtype != self.x.dtype or not np.array_equal(bits(got).ravel(), self.expected):
            raise Wrong(f"{self}: other elements, or {got.dtype}")

    def __str__(self) -> str:
        return f"{self.x.size} x {self.dtype.name}, {self.rounding}"


class Wrong(Exception):
    """An answer that is not what was promised."""


@functools.cache
def _repeating(dtype: str, rounding: str) -> tuple[Array, Array]:
    hard = patterns(dtype, 1 << 16)
    x = hard[np.random.default_rng(7).integers(0, hard.size, PERIOD)]
    return x, expected_bits(x, rounding)
