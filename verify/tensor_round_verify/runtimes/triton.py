"""``triton``: Triton's interpreter on the CPU: its floor and ceil, and its casts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is decorated

import torch
import triton
import triton.language as tl

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from .forms import Form, Values
from .runtime import NotSupported, PlainCasts, check_types, version
from .torch import for_torch, of_torch

#: Elements of a program of a kernel.
BLOCK = 1 << 16


# Triton has no annotations, and the interpreter runs kernels as they are written.
@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _floor(x, y, n, size: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + i, tl.floor(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _ceil(x, y, n, size: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + i, tl.ceil(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _cast(x, y, n, size: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(y.dtype.element_ty), mask=i < n)


class Triton(PlainCasts):
    """Kernels of one operator, as NumPy computes them in the interpreter."""

    dtypes = ("float32", "float64")
    operators = {"toward_positive": _ceil, "toward_negative": _floor}  # noqa: RUF012
    concurrent = False
    forms = Form.LENGTH

    def __init__(self, _: str, __: float) -> None:
        self.name = f"triton {version(triton)}, interpreter"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        return _running(self._operator(dtype, rounding), dtype)

    def _casts(self, how: Cast) -> Callable[[Values], Values]:
        if how.source == "float64":
            raise NotSupported("it has no casts of float64 here")
        check_types(torch, how.source, how.target)
        return _running(_cast, how.target)


def _running(kernel: Any, target: str) -> Callable[[Values], Values]:
    own = BY_NAME[target].numpy

    def run(x: Values) -> Values:
        result = torch.empty(x.size, dtype=getattr(torch, target))
        programs = (max(1, -(-x.size // BLOCK)),)
        kernel[programs](for_torch(x).contiguous(), result, x.size, size=BLOCK)
        return of_torch(result, own)

    return run
