"""The element types, and the names that each ecosystem has for them.

One row a type. Every mapping (NumPy, ONNX, OpenVINO, DirectML, StableHLO, Open
Inference Protocol) is derived from this table, so a new type is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import ml_dtypes
import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """An element type: its format, and its name in every dialect.

    ``numpy`` is the little-endian NumPy type. ``mantissa_bits`` counts the stored
    fraction bits of a float (0 for integers). A name is None where the ecosystem
    has no such type; whether an *operator* takes a type is the operator's to say.
    """

    name: str
    kind: Literal["float", "signed", "unsigned"]
    numpy: np.dtype[Any]
    mantissa_bits: int
    onnx: str | None
    onnx_number: int | None
    openvino: str
    directml: str | None
    directml_number: int | None
    stablehlo: str | None
    oip: str | None

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @cached_property
    def width(self) -> int:
        """Bits of one element."""
        return 8 * self.itemsize

    @property
    def exponent_bits(self) -> int:
        """Bits of a float's exponent field."""
        return self.width - 1 - self.mantissa_bits

    @property
    def exponent_bias(self) -> int:
        """Bias of a float's exponent: the pattern of 1.0 is this, shifted by ``mantissa_bits``."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def exponent_mask(self) -> int:
        """The pattern whose exponent bits alone are set: +infinity, if the float has one."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def has_infinity(self) -> bool:
        """Whether a float has infinities; the types with ``fn`` in their names are finite."""
        return not self.name.endswith("fn")

    @property
    def bits(self) -> np.dtype[Any]:
        """The unsigned integer type of the same width: the elements as bit patterns."""
        return np.dtype(f"<u{self.itemsize}")

    @cached_property
    def is_float(self) -> bool:
        """Whether the type is a float; integers are returned unchanged."""
        return self.kind == "float"

    def __repr__(self) -> str:
        return f"<DType {self.name}>"


def _ml(name: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


# A table reads best as one line a row.
# ruff: noqa: E501
# fmt: off
_F: Literal["float"] = "float"
_S: Literal["signed"] = "signed"
_U: Literal["unsigned"] = "unsigned"
DTYPES: tuple[DType, ...] = (
    #     canonical        kind  NumPy                 fraction  ONNX              OpenVINO  DirectML         StableHLO   OIP
    DType("float16",       _F, np.dtype("<f2"),        10, "FLOAT16",      10, "f16",    "FLOAT16",  2, "f16",      "FP16"),
    DType("bfloat16",      _F, _ml("bfloat16"),         7, "BFLOAT16",     16, "bf16",   None,    None, "bf16",     "BF16"),
    DType("float32",       _F, np.dtype("<f4"),        23, "FLOAT",         1, "f32",    "FLOAT32",  1, "f32",      "FP32"),
    DType("float64",       _F, np.dtype("<f8"),        52, "DOUBLE",       11, "f64",    "FLOAT64",  9, "f64",      "FP64"),
    DType("float8_e4m3fn", _F, _ml("float8_e4m3fn"),    3, "FLOAT8E4M3FN", 17, "f8e4m3", None,    None, "f8E4M3FN", None),
    DType("float8_e5m2",   _F, _ml("float8_e5m2"),      2, "FLOAT8E5M2",   19, "f8e5m2", None,    None, "f8E5M2",   None),
    DType("int8",          _S, np.dtype("<i1"),         0, "INT8",          3, "i8",     "INT8",     8, None,       "INT8"),
    DType("int16",         _S, np.dtype("<i2"),         0, "INT16",         5, "i16",    "INT16",    7, None,       "INT16"),
    DType("int32",         _S, np.dtype("<i4"),         0, "INT32",         6, "i32",    "INT32",    6, None,       "INT32"),
    DType("int64",         _S, np.dtype("<i8"),         0, "INT64",         7, "i64",    "INT64",   11, None,       "INT64"),
    DType("uint8",         _U, np.dtype("<u1"),         0, "UINT8",         2, "u8",     "UINT8",    5, None,       "UINT8"),
    DType("uint16",        _U, np.dtype("<u2"),         0, "UINT16",        4, "u16",    "UINT16",   4, None,       "UINT16"),
    DType("uint32",        _U, np.dtype("<u4"),         0, "UINT32",       12, "u32",    "UINT32",   3, None,       "UINT32"),
    DType("uint64",        _U, np.dtype("<u8"),         0, "UINT64",       13, "u64",    "UINT64",  10, None,       "UINT64"),
)
# fmt: on

BY_NAME: dict[str, DType] = {d.name: d for d in DTYPES}
BY_ONNX: dict[str, DType] = {d.onnx: d for d in DTYPES if d.onnx is not None}
BY_OPENVINO: dict[str, DType] = {d.openvino: d for d in DTYPES}
BY_DIRECTML: dict[str, DType] = {d.directml: d for d in DTYPES if d.directml is not None}
BY_STABLEHLO: dict[str, DType] = {d.stablehlo: d for d in DTYPES if d.stablehlo is not None}
BY_OIP: dict[str, DType] = {d.oip: d for d in DTYPES if d.oip is not None}

_BY_NUMPY: dict[np.dtype[Any], DType] = {
    numpy: d for d in DTYPES for numpy in (d.numpy, d.numpy.newbyteorder(">"))
}


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The row of a NumPy type in either byte order; None for an unsupported type."""
    return _BY_NUMPY.get(dtype)
