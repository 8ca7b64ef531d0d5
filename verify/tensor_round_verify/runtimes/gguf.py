"""``gguf``: the blocks of llama.cpp's files, by its Python package."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
from gguf import quants

from ..conversions.blocks.quantization import Array
from .blocks import BlockLibrary
from .forms import Form

#: Bytes of scales, and elements, in a block of the file.
_SIZES = {"mxfp4_e2m1": (1, 32), "nvfp4": (4, 64)}


def open_gguf(_: str, __: float) -> BlockLibrary:
    """MXFP4 both ways, and NVFP4's numbers."""
    name = f"gguf {metadata.version('gguf')}"
    return BlockLibrary(name, _quantize, _dequantize, Form.LENGTH | Form.RANK)


def _quantize(x: Array, fmt: str, scale: str) -> Any:
    if fmt != "mxfp4_e2m1" or scale != "floor" or x.dtype != np.float32:
        raise NotImplementedError(f"it does not quantize {x.dtype} to {fmt} by {scale}")
    stored = quants.MXFP4.quantize(x).reshape(-1, 17)
    low, high = stored[:, 1:] & 15, stored[:, 1:] >> 4
    codes = np.concatenate([low, high], axis=1)
    return stored[:, 0].reshape(*x.shape[:-1], -1), codes.reshape(x.shape)


def _dequantize(scales: Array, codes: Array, fmt: str, dtype: Any) -> Array:
    if fmt not in _SIZES or dtype != np.float32:
        raise NotImplementedError(f"it does not dequantize {fmt} to {dtype}")
    count, size = _SIZES[fmt]
    # A block that is not whole is filled with zeros.
    missing = -scales.size % count
    scales = np.pad(scales.reshape(-1), (0, missing))
    elements = np.pad(codes.reshape(-1), (0, missing * size // count))
    # Each 16 or 32 elements: the first half in the low bits of bytes, the second in the high.
    halves = elements.reshape(-1, size // count // 2)
    packed = (halves[::2] | halves[1::2] << 4).reshape(-1, size // 2)
    stored = np.concatenate([scales.reshape(-1, count), packed], axis=1)
    kind = quants.MXFP4 if fmt == "mxfp4_e2m1" else quants.NVFP4
    numbers: Array = kind.dequantize(stored.reshape(-1))[: codes.size].reshape(codes.shape)
    return numbers
