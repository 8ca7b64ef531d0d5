"""``mlx``: MLX on the CPU: its rounding, its casts, and its block formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.blocks.quantization import Array
from ..conversions.conversion import Cast
from ..reference import INTEGER_WIDTHS
from .blocks import BlockLibrary, matrix, packed_codes
from .forms import Form, Values
from .runtime import FUNCTIONS, Adapter, NotSupported, RoundBits

FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = {name: getattr(mx, name) for name in (*FLOATS, *INTEGER_WIDTHS) if hasattr(mx, name)}
#: Its names of block formats.
MODES = {"mxfp4_e2m1": "mxfp4", "mxfp8_e4m3": "mxfp8", "nvfp4": "nvfp4"}


# MLX's arrays have annotations that this package cannot see.
class MLX(BlockLibrary, Adapter):
    """MLX, whose arrays belong to one thread's stream."""

    dtypes = FLOATS
    operators = FUNCTIONS
    concurrent = False

    def __init__(self, _: str, __: float) -> None:
        mx.set_default_device(mx.cpu)
        name, forms = f"mlx {mx.__version__}, cpu", Form.LENGTH | Form.RANK
        super().__init__(name, _quantize, _dequantize, forms)

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        function = getattr(mx, self._operator(dtype, rounding))
        return lambda x: _numbers(function(_given(x)), x.dtype)

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``astype``, or to E4M3 by ``to_fp8``."""
        own = BY_NAME[how.target].numpy
        if how.rounding != how.usual or how.source not in TYPES:
            raise NotSupported(f"it has no cast of {how.source} that rounds {how.rounding}")
        if how.saturate and how.target == "float8_e4m3fn":
            return self._casting(lambda x: _numbers(mx.to_fp8(_given(x)), own), how)
        if how.saturate or how.target not in TYPES:
            raise NotSupported(f"it has no cast to {how.target} here")
        target = TYPES[how.target]
        return self._casting(lambda x: _numbers(_given(x).astype(target), own), how)


def _given(x: Values) -> Any:
    """MLX's array of the same bits."""
    kind = TYPES[BY_NAME_OF[x.dtype]]
    return mx.array(np.asarray(x, order="C").view(f"u{x.itemsize}")).view(kind)


BY_NAME_OF = {BY_NAME[name].numpy: name for name in TYPES}


def _numbers(found: Any, own: Any) -> Values:
    bits = np.array(found.view(getattr(mx, f"uint{8 * own.itemsize}")))
    numbers: Values = bits.view(own)
    return numbers


def _quantize(x: Array, fmt: str, _: str) -> Any:
    codes, scales = mx.quantize(_given(matrix(x)), mode=_mode(fmt))
    packed = np.array(codes).view(np.uint8)
    return np.array(scales).reshape(*x.shape[:-1], -1), packed.reshape(*x.shape[:-1], -1)


def _dequantize(scales: Array, codes: Array, fmt: str, dtype: Any) -> Array:
    words = mx.array(matrix(packed_codes(codes, fmt)).view(np.uint32))
    kind, by = TYPES[BY_NAME_OF[dtype]], mx.array(matrix(scales))
    found = mx.dequantize(words, by, mode=_mode(fmt), dtype=kind)
    return _numbers(found, dtype).reshape(codes.shape)


def _mode(fmt: str) -> str:
    if fmt not in MODES:
        raise NotImplementedError(f"it has no {fmt}")
    return MODES[fmt]
