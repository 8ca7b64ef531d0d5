"""Kernels that are right for every pattern, and wrong for some arrays or calls, with the causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.cases.wrong_kernels import Array, right

Kernel = Callable[..., Any]
EVEN = "ties_to_even"


def rounded(x: Array) -> Array:
    """What is right for any array."""
    return right(np.ascontiguousarray(x).reshape(-1), EVEN).reshape(x.shape)


def spoiling(spoil: Callable[[Array, Array], object]) -> Kernel:
    """A kernel whose right results ``spoil(x, y)`` makes wrong."""

    def kernel(x: Array) -> Array:
        y = rounded(x)
        spoil(x, y)
        return y

    return kernel


def tail(width: int, become: Callable[[Array], Any]) -> Kernel:
    def spoil(x: Array, y: Array) -> None:
        rest = x.size % width if x.ndim == 1 else 0
        if rest:
            y[-rest:] = become(x[-rest:])

    return spoiling(spoil)


def where(condition: Callable[[int], bool], become: Callable[[Array], Any]) -> Kernel:
    """All elements of arrays with so many."""

    def spoil(x: Array, y: Array) -> None:
        if condition(x.size):
            y[...] = become(x)

    return spoiling(spoil)


def rows_tail(x: Array) -> Array:
    """Vectors of 16 in each row; the rest of a row is copied."""
    y = rounded(x)
    rest = x.shape[-1] % 16 if x.ndim > 1 else 0
    if rest:
        y[..., -rest:] = x[..., -rest:]
    return y


def last(x: Array, y: Array) -> None:
    if x.size > 1:
        y[-1] = x[-1]


def first(x: Array, y: Array) -> None:
    if x.size > 1:
        y.reshape(-1)[0] = x.reshape(-1)[0]


def lane(x: Array, y: Array) -> None:
    y.reshape(-1)[7::8] = x.reshape(-1)[7::8]


def behind_65536(x: Array, y: Array) -> None:
    """An index of 16 bits."""
    y.reshape(-1)[1 << 16 :] = x.reshape(-1)[1 << 16 :]


def unaligned(x: Array, y: Array) -> None:
    if x.ctypes.data % 16:
        y[...] = x


def needs_aligned(x: Array) -> Array:
    if x.size and x.ctypes.data % 32:
        raise MemoryError("not aligned")
    return rounded(x)


def packed(x: Array) -> Array:
    """As C reads it from a pointer, whatever the strides."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    at = (x.ctypes.data - base.ctypes.data) // x.dtype.itemsize
    memory = base.reshape(-1).view(np.uint8)[(x.ctypes.data - base.ctypes.data) % x.itemsize :]
    memory = memory[: memory.size // x.itemsize * x.itemsize].view(x.dtype)
    return rounded(memory[at : at + x.size]).reshape(x.shape)


def one_dimension(x: Array) -> Array:
    """The first row alone is rounded."""
    y = x.copy()
    if x.ndim == 1:
        return rounded(x)
    y[0] = rounded(x[0])
    return y


def flat(x: Array) -> Array:
    return rounded(x).reshape(-1)


def fortran(x: Array) -> Array:
    """Rounds in the other order of memory."""
    return rounded(x).reshape(-1).reshape(x.shape, order="F")


def in_place(x: Array) -> Array:
    x[...] = rounded(x)
    return x


def writes_beyond(x: Array) -> Array:
    """A last vector that is stored whole, into memory that is not the operand's."""
    y = rounded(x)
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.nbytes > x.nbytes and x.flags.c_contiguous:
        end = x.ctypes.data - base.ctypes.data + x.nbytes
        base.view(np.uint8).reshape(-1)[end : end + 1] = 1
    return y


@dataclass(slots=True)
class Stateful:
    """A kernel with memory: a test uses a copy."""

    kind: str
    calls: int = 0
    memory: dict[int, Array] = field(default_factory=dict)

    def __call__(self, x: Array) -> Array:
        self.calls += 1
        y = rounded(x)
        if self.kind == "second call" and self.calls > 1:
            y[...] = x
        if self.kind == "every third call" and self.calls % 3 == 0 and x.size:
            y.reshape(-1)[x.size // 2] = x.reshape(-1)[x.size // 2]
        if self.kind == "static buffer":
            # The buffer of the last array of this size is given out again.
            buffer = self.memory.setdefault(x.size, np.empty_like(y).reshape(-1))
            buffer[:] = y.reshape(-1)
            return buffer.reshape(x.shape)
        return y


def empty_fails(x: Array) -> Array:
    x.max()
    return rounded(x)


def empty_returns(x: Array) -> Array:
    return rounded(x) if x.size else np.zeros(1, x.dtype)


def fails_below_eight(x: Array) -> Array:
    if 0 < x.size < 8:
        raise IndexError("no whole vector")
    return rounded(x)


def negative_strides(x: Array) -> Array:
    return rounded(x[::-1] if x.ndim == 1 and x.strides[0] < 0 else x)


def into(x: Array, out: Array | None = None) -> Array:
    """Writes zeros first, and reads its operand afterwards."""
    y = np.empty_like(x) if out is None else out
    y[...] = 0
    y[...] = rounded(x)
    return y


def out_of_nothing(x: Array, out: Array | None = None) -> Array:
    """Takes ``out`` and writes nothing there."""
    return rounded(x)


def copy(x: Array) -> Array:
    return x


def zero(x: Array) -> Array:
    return np.zeros_like(x)


NOT_ROUNDED = "the last 3 of 19 elements are not rounded, and so behind the last multiple of 16"
#: By kind: the kernel, and the words of the one cause that is found.
SUBTLE: dict[str, tuple[Kernel, str]] = {
    "tail-of-16": (tail(16, copy), NOT_ROUNDED),
    "tail-of-8-zero": (tail(8, zero), "the last 3 of 11 elements are zero"),
    "tail-of-4-wrong": (tail(4, lambda x: -x), "the last 3 of 7 elements are wrong"),
    "last-element": (spoiling(last), "the last of 3 elements is not rounded"),
    "first-element": (spoiling(first), "the first of 3 elements is not rounded"),
    "lane": (spoiling(lane), "element 7 of each 8 is not rounded"),
    "odd": (
        where(lambda n: n % 2 == 1, copy),
        "arrays of an odd number of elements are not rounded",
    ),
    "no-multiple-of-8": (
        where(lambda n: n % 8 > 0, zero),
        "arrays whose length is not a multiple of 8 are zero",
    ),
    "short": (where(lambda n: n < 16, copy), "arrays of fewer than 16 elements are not rounded"),
    "one": (where(lambda n: n == 1, zero), "arrays of one element are zero"),
    "long": (
        where(lambda n: n > 65535, copy),
        "arrays of 65,537 elements and more are not rounded",
    ),
    "very-long": (
        where(lambda n: n > 1 << 20, copy),
        "arrays of 1,114,113 elements and more are not rounded",
    ),
    "index-of-16-bits": (
        spoiling(behind_65536),
        "the elements behind the first 65,536 are not rounded",
    ),
    "fails-below-8": (
        fails_below_eight,
        "arrays of 1 element and 6 other lengths: IndexError: no whole vector",
    ),
    "empty-fails": (empty_fails, "the empty tensor: ValueError: "),
    "empty-returns": (empty_returns, "the empty tensor: it returned "),
    "unaligned": (
        spoiling(unaligned),
        "wrong in unaligned memory: at addresses that are not multiples of 16",
    ),
    "needs-aligned": (
        needs_aligned,
        "in unaligned memory, at addresses that are not multiples of 32: MemoryError: not aligned",
    ),
    "strided": (packed, "wrong for strided input: x[::2], x[::-1], x.T, x[:, :16]"),
    "negative-strides": (negative_strides, "wrong for strided input: x[::-1]"),
    "one-dimension": (
        one_dimension,
        "wrong for several dimensions: (64, 64), (64, 19), (1024, 1), ",
    ),
    "rows-tail": (rows_tail, "wrong for several dimensions: (64, 19)"),
    "flat": (flat, "(2, 4, 8, 16): it returned "),
    "fortran": (fortran, "wrong for several dimensions: (64, 64), (64, 19), (4, 16, 16)"),
    "in-place": (in_place, "changes its operand"),
    "writes-beyond": (writes_beyond, "writes beyond its operand"),
    "static-buffer": (Stateful("static buffer"), "its result is changed by the next call"),
    "second-call": (Stateful("second call"), "differs from call to call: "),
    "every-third-call": (Stateful("every third call"), "differs from call to call"),
    "into-itself": (into, "wrong in place, with out=x"),
    "into-nothing": (out_of_nothing, "wrong with out=y"),
}
