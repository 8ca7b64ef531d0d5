"""The element types, one row a type. The dialects have their own names for them.

Every mapping of NumPy's types and the Open Inference Protocol's is derived from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import ml_dtypes
import numpy as np

#: The names in :data:`DTYPES`, so that type checkers find wrong ones; a test compares both.
DTypeName = Literal[
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

#: A canonical name, or a NumPy dtype in either byte order.
AnyDType = DTypeName | np.dtype[Any] | type[Any]


@dataclass(frozen=True, eq=False)
class DType:
    """An element type and its format.

    ``numpy`` is the little-endian NumPy type. ``mantissa_bits`` counts the stored fraction bits
    of a float (0 for integers). ``has_infinity`` is False for integers and for floats whose
    largest patterns are numbers and one NaN. ``oip`` is the name in the Open Inference Protocol,
    None if it has no such type.

    A float must be closed under rounding: each number rounds to a number of the type.
    """

    name: str
    numpy: np.dtype[Any]
    mantissa_bits: int
    has_infinity: bool
    oip: str | None

    def __post_init__(self) -> None:
        # The largest number with a fraction may round up to 2^mantissa_bits, and every exponent
        # up to the bias is one of numbers. float8_e3m4 lacks 16, to which 15.5 rounds.
        if self.is_float and self.exponent_bias < self.mantissa_bits:
            raise ValueError(f"{self.name} is not closed under rounding")

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
    def sign_bit(self) -> int:
        """The pattern whose sign bit alone is set: -0.0."""
        return 1 << (self.width - 1)

    @property
    def npy(self) -> str:
        """The code of the type in .npy files, without the mark of the byte order."""
        return self.numpy.str[1:]

    @property
    def is_named_by_npy(self) -> bool:
        """Whether the code in .npy files names the type: it does for types that NumPy has."""
        return self.numpy.isbuiltin == 1

    @property
    def bits(self) -> np.dtype[Any]:
        """The unsigned integer type of the same width: the elements as bit patterns."""
        return np.dtype(f"<u{self.itemsize}")

    @cached_property
    def is_float(self) -> bool:
        """Whether the type is a float; integers are returned unchanged."""
        return self.mantissa_bits > 0

    def __repr__(self) -> str:
        return f"<DType {self.name}>"


def _ml(name: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


# A table reads best as one line a row.
# fmt: off
DTYPES: tuple[DType, ...] = (
    #     canonical        NumPy                 fraction  infinity  OIP
    DType("float16",       np.dtype("<f2"),         10, True,     "FP16"),
    DType("bfloat16",      _ml("bfloat16"),          7, True,     "BF16"),
    DType("float32",       np.dtype("<f4"),         23, True,     "FP32"),
    DType("float64",       np.dtype("<f8"),         52, True,     "FP64"),
    DType("float8_e4m3fn", _ml("float8_e4m3fn"),     3, False,    None),
    DType("float8_e5m2",   _ml("float8_e5m2"),       2, True,     None),
    DType("int8",          np.dtype("<i1"),          0, False,    "INT8"),
    DType("int16",         np.dtype("<i2"),          0, False,    "INT16"),
    DType("int32",         np.dtype("<i4"),          0, False,    "INT32"),
    DType("int64",         np.dtype("<i8"),          0, False,    "INT64"),
    DType("uint8",         np.dtype("<u1"),          0, False,    "UINT8"),
    DType("uint16",        np.dtype("<u2"),          0, False,    "UINT16"),
    DType("uint32",        np.dtype("<u4"),          0, False,    "UINT32"),
    DType("uint64",        np.dtype("<u8"),          0, False,    "UINT64"),
)
# fmt: on

BY_NAME: dict[str, DType] = {d.name: d for d in DTYPES}
BY_OIP: dict[str, DType] = {d.oip: d for d in DTYPES if d.oip is not None}

#: Names that NumPy, torch and C have for types, each with the served type that is the same, or has
#: the most of its precision; None if every served one has less, or another meaning.
OTHER_NAMES: dict[str, str | None] = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    **dict.fromkeys(("longdouble", "float96", "float128"), "float64"),
    **dict.fromkeys(("complex32", "complex64", "complex128", "complex192", "complex256")),
    **dict.fromkeys(("qint8", "quint8", "qint16", "quint16", "qint32", "quint4x2", "quint2x4")),
    **dict.fromkeys(("int1", "int2", "int4", "int128", "uint1", "uint2", "uint4", "uint128")),
    **dict.fromkeys(("float8_e3m4", "float8_e4m3", "float8_e4m3fnuz", "float8_e4m3b11fnuz")),
    **dict.fromkeys(("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float4_e2m1fn_x2")),
    **dict.fromkeys(("float6_e2m3fn", "float6_e3m2fn")),
}

_BY_NUMPY: dict[np.dtype[Any], DType] = {
    numpy: d for d in DTYPES for numpy in (d.numpy, d.numpy.newbyteorder(">"))
}


#: The canonical names of NumPy's types, in either byte order.
NAMES: dict[np.dtype[Any], str] = {numpy: d.name for numpy, d in _BY_NUMPY.items()}


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The row of a NumPy type in either byte order; None for an unsupported type."""
    return _BY_NUMPY.get(dtype)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The canonical name of a NumPy type in either byte order; NumPy's of an unsupported one."""
    return NAMES.get(dtype) or dtype.name
