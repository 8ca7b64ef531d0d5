"""Arrays of every dtype, layout and byte order, or drawn by chance, and their right results."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, all_patterns, rounded

Array = npt.NDArray[Any]


def patterns(dtype: str, count: int) -> Array:
    """So many hard elements of a canonical dtype, little-endian."""
    hard = all_patterns(dtype) if BY_NAME[dtype].width <= 16 else _wide(dtype)
    step = max(1, hard.size // count)
    return np.resize(hard[::step], count).view(BY_NAME[dtype].numpy)


def _wide(dtype: str) -> Array:
    if "int" in dtype:
        generator = np.random.default_rng(0)
        return generator.integers(0, 1 << WIDTHS[dtype], 4096, f"<u{WIDTHS[dtype] // 8}", False)
    return samples(dtype, random_count=2048)


def bits(x: Array) -> Array:
    """The elements as native unsigned integers, as if read one by one."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}").newbyteorder(x.dtype.byteorder)
    return x.view(unsigned).astype(f"=u{x.dtype.itemsize}")


def expected_bits(x: Array, rounding: str = "ties_to_even") -> Array:
    """What :func:`bits` of the result must be."""
    return rounded(bits(x), dtype_name(x), rounding)


def on_wire(x: Array) -> bytes:
    """The bytes of little-endian elements on the wire: two of 4 bits have one."""
    if not BY_NAME[dtype_name(x)].is_sub_byte:
        return x.tobytes()
    halves = np.append(x.reshape(-1).view(np.uint8), np.zeros(x.size % 2, np.uint8))
    return (halves[::2] | halves[1::2] << 4).tobytes()


def off_wire(data: bytes, dtype: str, count: int) -> Array:
    """So many elements from their bytes on the wire."""
    kind, given = BY_NAME[dtype].numpy, np.frombuffer(data, np.uint8)
    if not BY_NAME[dtype].is_sub_byte:
        return given[: count * kind.itemsize].view(kind)
    return np.stack([given & 15, given >> 4], 1).reshape(-1)[:count].view(kind)


def dtype_name(x: Array) -> str:
    return x.dtype.newbyteorder("<").name


def _cube(x: Array) -> Array:
    return x[: x.size // 24 * 24].reshape(2, 3, 4, -1)


#: What is made of a flat little-endian array of at least 48 elements.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "flat": lambda x: x,
    "cube": _cube,
    "fortran": lambda x: np.asfortranarray(_cube(x)),
    "permuted": lambda x: _cube(x).transpose(2, 0, 3, 1),
    "every-other": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "a-column": lambda x: _cube(x)[:, :, 1],
    "transposed-slice": lambda x: _cube(x).T[1:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:6], (5, 6)),
    "scalar-0d": lambda x: x[7:8].reshape(()),
    "one": lambda x: x[:1],
    "empty": lambda x: x[:0],
    "empty-2d": lambda x: x[:0].reshape(3, 0),
    "rank-32": lambda x: x[:4].reshape((1,) * 30 + (2, 2)),
    "read-only": lambda x: _read_only(x),
    "unaligned": lambda x: _unaligned(x),
    "field-of-records": lambda x: _field(x),
}


def _read_only(x: Array) -> Array:
    frozen = x.copy()
    frozen.flags.writeable = False
    return frozen


def _unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    shifted = memory[1:].view(x.dtype)
    shifted[:] = x
    return shifted


def _field(x: Array) -> Array:
    records = np.zeros(x.size, [("before", "u1"), ("value", x.dtype), ("after", "u1", 2)])
    records["value"] = x
    return records["value"]


#: Elements after which a tensor repeats; a prime, so that no tile or block lies like another.
PERIOD = 65_521


class WrongResult(Exception):
    """A result that differs from the reference's."""


@dataclass(frozen=True)
class DrawnTensor:
    """A tensor of one dimension, and the patterns of its result.

    If ``target`` is another type than its own, it is cast to that, and not rounded to integers.
    """

    x: Array
    dtype: DType
    rounding: Rounding
    expected: Array
    target: DType
    saturates: bool = False

    @classmethod
    def of(
        cls,
        dtype: str,
        rounding: str,
        count: int,
        start: int = 0,
        *,
        finite: bool = False,
        to: str | None = None,
        saturates: bool = False,
    ) -> DrawnTensor:
        """So many elements; another ``start`` makes another tensor. ``finite`` ones have no NaN."""
        x, expected = (
            np.resize(np.roll(each, -start), count)
            for each in _stock(dtype, rounding, finite, to or dtype, saturates)
        )
        target = BY_NAME[to or dtype]
        return cls(x, BY_NAME[dtype], Rounding(rounding), expected, target, saturates)

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
        return on_wire(self.x)

    @property
    def result(self) -> bytes:
        """The bytes of its result."""
        return on_wire(self.rounded)

    @property
    def rounded(self) -> Array:
        """Its result as an array."""
        return self.expected.view(self.target.numpy)

    @property
    def is_cast(self) -> bool:
        """Whether its result has another type."""
        return self.target is not self.dtype

    def wrong_elements(self, got: Array, *, or_unchanged: bool = False) -> int:
        """How many elements are neither right nor, with ``or_unchanged``, as they were."""
        wrong = bits(got) != self.expected
        if or_unchanged:
            wrong &= bits(got) != bits(self.x)
        return int(np.count_nonzero(wrong))

    def check(self, got: bytes) -> None:
        """Raise :class:`WrongResult` if these are not the result's bytes."""
        if got != self.result:
            raise WrongResult(f"{self}: {len(got)} bytes, not the {len(self.result)} right ones")

    def __str__(self) -> str:
        to = f" to {self.target.name}" if self.is_cast else ""
        return f"{self.x.size} x {self.dtype.name}{to}, {self.rounding}"


# Of rounding all are kept; a cast takes milliseconds.
@functools.lru_cache(maxsize=256)
def _stock(
    dtype: str, rounding: str, finite: bool, to: str, saturates: bool
) -> tuple[Array, Array]:
    generator = np.random.default_rng(7)
    if finite:
        x = generator.normal(0, 9, PERIOD).astype(BY_NAME[dtype].numpy)
    else:
        hard = patterns(dtype, 1 << 16)
        x = hard[generator.integers(0, hard.size, PERIOD)]
    if to != dtype:
        return x, cast(bits(x), dtype, to, rounding, saturate=saturates)
    return x, expected_bits(x, rounding)
