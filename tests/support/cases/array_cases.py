"""Arrays of every dtype, layout and byte order, and what rounding them must give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import WIDTHS, all_patterns, rounded

Array = npt.NDArray[Any]


def patterns(dtype: str, count: int) -> Array:
    """So many hard elements of a canonical dtype, little-endian."""
    hard = all_patterns(dtype) if WIDTHS[dtype] <= 16 else _wide(dtype)
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
