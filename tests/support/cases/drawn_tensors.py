"""Tensors drawn by chance, each with the bits that rounding it must give by the reference."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np

from support.cases.array_cases import Array, bits, expected_bits, patterns
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding
from tensor_round_verify.reference import ROUNDINGS, WIDTHS

#: Elements after which a tensor repeats; a prime, so that no tile or block lies like another.
PERIOD = 65_521


class WrongResult(Exception):
    """A result that differs from the reference's."""


@dataclass(frozen=True)
class DrawnTensor:
    """A tensor of one dimension, and the patterns of its result."""

    x: Array
    dtype: DType
    rounding: Rounding
    expected: Array

    @classmethod
    def of(
        cls, dtype: str, rounding: str, count: int, start: int = 0, *, finite: bool = False
    ) -> DrawnTensor:
        """So many elements; another ``start`` makes another tensor. ``finite`` ones have no NaN."""
        x, expected = (
            np.resize(np.roll(each, -start), count) for each in _stock(dtype, rounding, finite)
        )
        return cls(x, BY_NAME[dtype], Rounding(rounding), expected)

    @classmethod
    def drawn(cls, source: random.Random, max_bytes: int, dtype: str | None = None) -> DrawnTensor:
        """Any type and direction; 3 % are empty, else each power of two is equally likely."""
        name = dtype or source.choice(list(WIDTHS))
        most = max_bytes * 8 // WIDTHS[name]
        count = 0 if source.random() < 0.03 else int(most ** source.random())
        return cls.of(name, source.choice(ROUNDINGS), count, source.randrange(PERIOD))

    @property
    def payload(self) -> bytes:
        """The tensor's bytes."""
        return self.x.tobytes()

    @property
    def result(self) -> bytes:
        """The bytes of its result."""
        return self.expected.tobytes()

    @property
    def rounded(self) -> Array:
        """Its result as an array of the same type."""
        return self.expected.view(self.x.dtype)

    def wrong_elements(self, got: Array, *, or_unchanged: bool = False) -> int:
        """How many elements are neither right nor, with ``or_unchanged``, as they were."""
        wrong = bits(got) != self.expected
        if or_unchanged:
            wrong &= bits(got) != bits(self.x)
        return int(np.count_nonzero(wrong))

    def check(self, got: bytes) -> None:
        """Raise :class:`WrongResult` if these are not the result's bytes."""
        if got != self.result:
            raise WrongResult(
                f"{self}: {len(got)} bytes, not the {self.expected.nbytes} right ones"
            )

    def __str__(self) -> str:
        return f"{self.x.size} x {self.dtype.name}, {self.rounding}"


@functools.cache
def _stock(dtype: str, rounding: str, finite: bool) -> tuple[Array, Array]:
    generator = np.random.default_rng(7)
    if finite:
        x = generator.normal(0, 9, PERIOD).astype(BY_NAME[dtype].numpy)
    else:
        hard = patterns(dtype, 1 << 16)
        x = hard[generator.integers(0, hard.size, PERIOD)]
    return x, expected_bits(x, rounding)
