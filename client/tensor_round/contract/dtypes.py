"""The element types, one row a type. The dialects have their own names for them.

Every mapping of NumPy's types and the Open Inference Protocol's is derived from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import ml_dtypes
import numpy as np

#: The names in :data:`DTYPES`, so that type checkers find wrong ones; a test compares both.
DTypeName = Literal[
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4",
]  # fmt: skip


class TorchDType(Protocol):
    """What torch's dtypes have, and names lack."""

    @property
    def is_floating_point(self) -> bool:
        """Whether the type is a float."""


#: A canonical name, a NumPy dtype in either byte order, or torch's.
AnyDType = DTypeName | np.dtype[Any] | type[Any] | TorchDType


#: What the patterns of a float mean that are no numbers: ``ieee``, infinities and NaNs have all
#: bits of the exponent; ``all_ones``, the magnitude of ones alone is the NaN; ``negative_zero``,
#: the pattern of -0 is the NaN; ``none``, all are numbers. Only ``ieee`` has infinities.
Specials = Literal["ieee", "all_ones", "negative_zero", "none"]


@dataclass(frozen=True, eq=False)
class DType:
    """An element type and its format.

    ``numpy`` is the little-endian NumPy type. ``width`` counts the bits of an element on the wire:
    two elements of 4 bits have a byte, the first one its low half. ``exponent_bits``,
    ``mantissa_bits`` (the stored fraction), ``exponent_bias`` and ``specials`` are those of a
    float, 0 and ``none`` for integers. ``oip`` is the name in the Open Inference Protocol, None if
    it has no such type.
    """

    name: str
    numpy: np.dtype[Any]
    width: int
    is_signed: bool
    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int
    specials: Specials
    oip: str | None

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element in NumPy's memory; one also for types of less than a byte."""
        return self.numpy.itemsize

    @cached_property
    def is_sub_byte(self) -> bool:
        """Whether a byte on the wire has several elements."""
        return self.width < 8

    def nbytes(self, count: int) -> int:
        """Bytes on the wire of ``count`` elements."""
        return -(-count * self.width // 8)

    def count(self, nbytes: int) -> int:
        """The most whole elements in ``nbytes`` bytes on the wire."""
        return nbytes * 8 // self.width

    @property
    def has_infinity(self) -> bool:
        """Whether the type has infinities."""
        return self.specials == "ieee"

    @property
    def exponent_mask(self) -> int:
        """The pattern whose exponent bits alone are set: +infinity, if the float has one."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def sign_bit(self) -> int:
        """The pattern whose sign bit alone is set: -0.0, if the float has one; 0 without a sign."""
        return 1 << (self.width - 1) if self.is_signed else 0

    @property
    def largest(self) -> int:
        """The pattern of the largest number."""
        if self.specials == "ieee":
            return self.exponent_mask - 1
        ones = (1 << (self.width - self.is_signed)) - 1
        return ones - 1 if self.specials == "all_ones" else ones

    @property
    def nan(self) -> int | None:
        """The pattern of the quiet NaN without sign and payload; None if there is no NaN."""
        return {
            "ieee": self.exponent_mask | (1 << self.mantissa_bits >> 1),
            "all_ones": self.largest + 1,
            "negative_zero": self.sign_bit,
            "none": None,
        }[self.specials]

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
        """The unsigned integer type of NumPy's elements: they as bit patterns."""
        return np.dtype(f"<u{self.itemsize}")

    @cached_property
    def is_float(self) -> bool:
        """Whether the type is a float; integers are integral values already."""
        return self.exponent_bits > 0

    @cached_property
    def is_closed_under_rounding(self) -> bool:
        """Whether each number rounds to an integral value of the type.

        The largest number with a fraction may round up to 2^mantissa_bits, and every exponent up to
        the bias is one of numbers: float8_e3m4 lacks 16, to which 15.5 rounds. A type of powers of
        two alone lacks 0.
        """
        return not self.is_float or (self.is_signed and self.exponent_bias >= self.mantissa_bits)

    def __repr__(self) -> str:
        return f"<DType {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Rows are compared by identity: a copy, of another process too, is the row itself.
        return _row, (self.name,)


def _row(name: str) -> DType:
    return BY_NAME[name]


def _ml(name: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


# A table reads best as one line a row.
# fmt: off
DTYPES: tuple[DType, ...] = (
    #     canonical          NumPy             bits sign exp fraction bias  specials         OIP
    DType("float16",         np.dtype("<f2"),   16, True,  5, 10,   15, "ieee",          "FP16"),
    DType("bfloat16",        _ml("bfloat16"),   16, True,  8,  7,  127, "ieee",          "BF16"),
    DType("float32",         np.dtype("<f4"),   32, True,  8, 23,  127, "ieee",          "FP32"),
    DType("float64",         np.dtype("<f8"),   64, True, 11, 52, 1023, "ieee",          "FP64"),
    DType("float8_e4m3fn",   _ml("float8_e4m3fn"), 8, True, 4, 3,    7, "all_ones",      None),
    DType("float8_e5m2",     _ml("float8_e5m2"), 8, True,  5,  2,   15, "ieee",          None),
    DType("int8",            np.dtype("<i1"),    8, True,  0,  0,    0, "none",          "INT8"),
    DType("int16",           np.dtype("<i2"),   16, True,  0,  0,    0, "none",          "INT16"),
    DType("int32",           np.dtype("<i4"),   32, True,  0,  0,    0, "none",          "INT32"),
    DType("int64",           np.dtype("<i8"),   64, True,  0,  0,    0, "none",          "INT64"),
    DType("uint8",           np.dtype("<u1"),    8, False, 0,  0,    0, "none",          "UINT8"),
    DType("uint16",          np.dtype("<u2"),   16, False, 0,  0,    0, "none",          "UINT16"),
    DType("uint32",          np.dtype("<u4"),   32, False, 0,  0,    0, "none",          "UINT32"),
    DType("uint64",          np.dtype("<u8"),   64, False, 0,  0,    0, "none",          "UINT64"),
    DType("float8_e4m3fnuz", _ml("float8_e4m3fnuz"), 8, True, 4, 3,  8, "negative_zero", None),
    DType("float8_e5m2fnuz", _ml("float8_e5m2fnuz"), 8, True, 5, 2, 16, "negative_zero", None),
    DType("float8_e8m0fnu",  _ml("float8_e8m0fnu"),  8, False, 8, 0, 127, "all_ones",    None),
    DType("float4_e2m1fn",   _ml("float4_e2m1fn"),   4, True, 2, 1,  1, "none",          None),
    DType("int4",            _ml("int4"),            4, True, 0, 0,  0, "none",          None),
    DType("uint4",           _ml("uint4"),           4, False, 0, 0, 0, "none",          None),
)
# fmt: on

#: The types that can be rounded to integral values.
ROUNDABLE: tuple[DType, ...] = tuple(d for d in DTYPES if d.is_closed_under_rounding)
#: Why the others cannot.
NOT_CLOSED = "it is not closed under rounding: it has only powers of two, and 0.5 rounds to 0"

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
    **dict.fromkeys(("int1", "int2", "int128", "uint1", "uint2", "uint128")),
    **dict.fromkeys(("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")),
    **dict.fromkeys(("float4_e2m1fn_x2", "float6_e2m3fn", "float6_e3m2fn")),
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
