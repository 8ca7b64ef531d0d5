"""``torchao`` and ``gfloat``: quantization into blocks and back, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversions.blocks.quantization import Array, BlockDequantization, BlockQuantization
from .forms import ANY, Form
from .function import Function, PythonFunction
from .runtime import DequantizeBlocks, QuantizeBlocks, Runtime, version

#: A tensor of PyTorch, which this package has no annotations of.
Tensor = Any


class BlockLibrary(Runtime):
    """A library with a function that quantizes and one that decodes."""

    concurrent = False

    def __init__(
        self, name: str, quantize: Function, dequantize: Function, forms: Form = ANY
    ) -> None:
        self.name, self.forms = name, forms
        self._quantize = PythonFunction(quantize, 600, name)
        self._dequantize = PythonFunction(dequantize, 600, name)
        # One thread for all calls.
        self._quantize.worker = self._dequantize.worker = self.worker

    def block_quantize(self, how: BlockQuantization) -> QuantizeBlocks:
        """The function that quantizes."""
        return self._quantize.block_quantize(how)

    def block_dequantize(self, how: BlockDequantization) -> DequantizeBlocks:
        """The function that decodes."""
        return self._dequantize.block_dequantize(how)


def matrix(x: Array) -> Array:
    """The rows of an array; some libraries know blocks of matrices alone."""
    return x.reshape(-1, x.shape[-1])


def open_torchao(_: str, __: float) -> BlockLibrary:
    """Torchao's ``to_mx``, ``nvfp4_quantize`` and their inverses."""
    import torch
    import torchao
    from torchao.prototype.mx_formats import mx_tensor as mx
    from torchao.prototype.mx_formats import nvfp4_tensor as nv

    from .torch import for_torch, of_torch

    types = {
        "mxfp8_e4m3": torch.float8_e4m3fn,
        "mxfp8_e5m2": torch.float8_e5m2,
        "mxfp6_e2m3": "fp6_e2m3",
        "mxfp6_e3m2": "fp6_e3m2",
        "mxfp4_e2m1": torch.float4_e2m1fn_x2,
    }

    def quantize(x: Array, fmt: str, scale: str, tensor_scale: float = 1.0) -> Any:
        if x.dtype == np.float16 or fmt == "mxint8":
            raise NotImplementedError(f"it does not quantize {x.dtype} to {fmt}")
        rows = for_torch(matrix(x))
        if fmt == "nvfp4":
            by = None if tensor_scale == 1 else torch.tensor(tensor_scale)
            return _bytes(nv.nvfp4_quantize(rows, 16, by), x.shape)
        mode = mx.ScaleCalculationMode[scale.upper()]
        return _bytes(mx.to_mx(rows, types[fmt], 32, mode), x.shape)

    def dequantize(
        scales: Array, codes: Array, fmt: str, dtype: Any, tensor_scale: float = 1.0
    ) -> Array:
        if fmt == "mxint8":
            raise NotImplementedError("it has no mxint8")
        own, scales = getattr(torch, dtype.name), matrix(scales)
        packed = torch.from_numpy(matrix(packed_codes(codes, fmt)))
        if fmt == "nvfp4":
            by = None if tensor_scale == 1 else torch.tensor(tensor_scale)
            scale = torch.from_numpy(scales).view(torch.float8_e4m3fn)
            found = nv.NVFP4Tensor(packed, scale, 16, own, by).dequantize(own)
        else:
            elements = packed.view(types[fmt]) if fmt.startswith("mxfp8") else packed
            scale = torch.from_numpy(scales).view(torch.float8_e8m0fnu)
            found = mx.to_dtype(elements, scale, types[fmt], 32, own)
        return of_torch(found.contiguous(), dtype).reshape(codes.shape)

    return BlockLibrary(f"torchao {version(torchao)}", quantize, dequantize, ~Form.EMPTY)


def open_gfloat(_: str, __: float) -> BlockLibrary:
    """Gfloat's scales by amax, and its rounding and decoding of elements."""
    import gfloat
    from gfloat import formats

    def known(fmt: str, scale: str = "floor") -> Any:
        info = getattr(formats, f"format_info_{fmt}", None)
        if info is None or scale != "floor":
            raise NotImplementedError(f"it has no {fmt} by {scale}")
        return info

    def quantize(x: Array, fmt: str, scale: str) -> Any:
        info = known(fmt, scale)
        blocks = x.astype(np.float64).reshape(-1, info.k)
        peaks, which = np.unique(np.abs(blocks).max(1), return_inverse=True)
        scales = np.array([gfloat.compute_scale_amax(info.etype.emax, peak) for peak in peaks])
        scales = scales[which]
        elements = gfloat.round_ndarray(info.etype, blocks / scales[:, None], sat=True)
        codes = gfloat.encode_ndarray(info.etype, elements).astype(np.uint8)
        stored = gfloat.encode_ndarray(info.stype, scales).astype(np.uint8)
        return stored.reshape(*x.shape[:-1], -1), codes.reshape(x.shape)

    def dequantize(scales: Array, codes: Array, fmt: str, dtype: Any) -> Array:
        info = known(fmt)
        units = gfloat.decode_ndarray(info.stype, scales).repeat(info.k, axis=-1)
        numbers: Array = (gfloat.decode_ndarray(info.etype, codes) * units).astype(dtype)
        return numbers

    return BlockLibrary(f"gfloat {version(gfloat)}", quantize, dequantize)


def _bytes(parts: tuple[Tensor, Tensor], shape: tuple[int, ...]) -> tuple[Array, Array]:
    import torch

    scales, codes = (part.contiguous().view(torch.uint8).numpy() for part in parts)
    return scales.reshape(*shape[:-1], -1), codes.reshape(*shape[:-1], -1)


def packed_codes(codes: Array, fmt: str) -> Array:
    """The codes, of 4 bits two in a byte, the first in its low bits."""
    if fmt not in ("mxfp4_e2m1", "nvfp4"):
        return codes
    pairs: Array = codes[..., ::2] | codes[..., 1::2] << 4
    return pairs
