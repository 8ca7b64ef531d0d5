"""The header of a .npy file, parsed strictly.

The format is NEP 1: magic, version, header length, and a Python dict literal with the keys
``descr``, ``fortran_order`` and ``shape``, padded to 64 bytes; the data follow. ``numpy.load``
evaluates the literal and allocates the size that it states. This module matches the literal
against the grammar that NumPy writes, and allocates nothing.

The dtypes of ml_dtypes have no code: NumPy stores bfloat16 as ``V2``, float8_e4m3fn
as ``V1`` and float8_e5m2 as ``f1`` (which it cannot load). Their names are given separately; see
:func:`resolve_dtype`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from ..dtypes import BY_NAME, DTYPES, DType
from ..errors import InvalidDescriptor, MalformedNpy, UnsupportedMediaType
from ..layout import SIZE_LIMIT, Layout, packed_strides
from ..quoting import shown

MAGIC = b"\x93NUMPY"
#: The first bytes of a .npz file, which is a zip archive.
_ZIP = b"PK\x03\x04"
#: The longest dict literal with padding, in bytes: NumPy's own limit for untrusted files.
MAX_LITERAL_LENGTH = 10_000
#: The longest header, in bytes.
MAX_HEADER_LENGTH = len(MAGIC) + 2 + 4 + MAX_LITERAL_LENGTH
#: NumPy's own limit (NPY_MAXDIMS).
MAX_RANK = 64

ByteOrder = Literal["little", "big"]

# Bytes of the length field, and the literal's encoding, per major version.
_VERSIONS = {1: (2, "latin-1"), 2: (4, "latin-1"), 3: (4, "utf-8")}
_BY_CODE: dict[str, DType] = {d.npy: d for d in DTYPES if d.is_named_by_npy}
#: The names of some types that are not supported, by their code.
_OTHER_TYPES = {"c8": "complex64", "c16": "complex128", "b1": "bool"}
#: The dtypes that an ambiguous code may stand for: raw bytes for any of their size.
_CANDIDATES: dict[str, tuple[DType, ...]] = {
    d.npy: tuple(o for o in DTYPES if o.itemsize == d.itemsize) if d.npy[0] == "V" else (d,)
    for d in DTYPES
    if not d.is_named_by_npy
}


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """A parsed .npy header; ``raw`` are its bytes, which the response repeats.

    ``dtype`` is None where ``descr`` is ambiguous; see :func:`resolve_dtype`. Elements of one byte
    are always ``"little"``.
    """

    descr: str
    byte_order: ByteOrder
    dtype: DType | None
    itemsize: int
    fortran_order: bool
    shape: tuple[int, ...]
    raw: bytes

    @property
    def header_length(self) -> int:
        """Bytes before the data."""
        return len(self.raw)

    @property
    def data_length(self) -> int:
        """Bytes of the data that follow the header."""
        return math.prod(self.shape) * self.itemsize

    def layout(self, dtype: DType) -> Layout:
        """The layout of the data, as if it were little-endian.

        Elements of 4 bits have a byte each in a file: their layout is that of uint8.
        """
        dtype = BY_NAME["uint8"] if dtype.is_sub_byte else dtype
        # Fortran strides of an empty tensor have no meaning, and could exceed the limit.
        if not self.fortran_order or 0 in self.shape:
            return Layout.of(dtype, self.shape)
        return Layout.of(dtype, self.shape, packed_strides(self.shape[::-1])[::-1])


def has_byte_order(dtype: DType) -> bool:
    """Whether a file may have a type's elements in either byte order."""
    return dtype.is_named_by_npy and dtype.itemsize > 1


def header_of(dtype: DType, shape: tuple[int, ...], like: NpyHeader) -> bytes:
    """The header of another dtype in the order and byte order of ``like``, as NumPy writes it.

    Types without a code are raw bytes, which NumPy can load.
    """
    is_big = like.byte_order == "big" and has_byte_order(dtype)
    descr = dtype.numpy.newbyteorder(">").str if is_big else dtype.numpy.str
    descr = descr if dtype.is_named_by_npy else f"|V{dtype.itemsize}"
    literal = f"{{'descr': {descr!r}, 'fortran_order': {like.fortran_order}, 'shape': {shape}, }}"
    start = len(MAGIC) + 4
    padding = -(start + len(literal) + 1) % 64
    text = (literal + " " * padding + "\n").encode("latin-1")
    return MAGIC + b"\1\0" + len(text).to_bytes(2, "little") + text


def read_header(prefix: bytes | bytearray | memoryview) -> NpyHeader | int:
    """The header that ``prefix`` begins with, or the least number of bytes that it still needs.

    Bytes behind the header are ignored. Raises :class:`MalformedNpy` at the first wrong byte, and
    :class:`UnsupportedMediaType` for a valid header with another element type.
    """
    start_bytes = bytes(prefix[:MAX_HEADER_LENGTH])
    if start_bytes.startswith(_ZIP):
        raise MalformedNpy(
            "the body is an archive of arrays (.npz): unpack it and round each .npy file"
        )
    if start_bytes[: len(MAGIC)] != MAGIC[: len(start_bytes)]:
        raise MalformedNpy("the body does not begin with the magic bytes of a .npy file")
    version = start_bytes[len(MAGIC) : len(MAGIC) + 2]
    if version and (version[0] not in _VERSIONS or version[1:] not in (b"", b"\0")):
        raise MalformedNpy("the version of the .npy file is not 1.0, 2.0 or 3.0")
    if len(version) < 2:
        return len(MAGIC) + 2 + 2 - len(start_bytes)
    field, encoding = _VERSIONS[version[0]]
    start = len(MAGIC) + 2 + field
    if len(start_bytes) < start:
        return start - len(start_bytes)
    length = int.from_bytes(start_bytes[start - field : start], "little")
    if length > MAX_LITERAL_LENGTH:
        raise MalformedNpy(f"the .npy header is longer than {MAX_LITERAL_LENGTH} bytes")
    if len(start_bytes) < start + length:
        return start + length - len(start_bytes)
    try:
        literal = start_bytes[start : start + length].decode(encoding)
    except UnicodeDecodeError:
        raise MalformedNpy("the .npy header is not UTF-8") from None
    return _header(literal, start_bytes[: start + length])


def resolve_dtype(header: NpyHeader, name: str | None) -> DType:
    """The dtype of a file, from its header and the name given separately (``?dtype=``).

    Raises :class:`UnsupportedMediaType` if the header is ambiguous and no name is given, and
    :class:`InvalidDescriptor` at ``query.dtype`` for a name that the header does not allow.
    """
    candidates = _CANDIDATES[header.descr[1:]] if header.dtype is None else (header.dtype,)
    names = " ".join(d.name for d in candidates)
    if name is None:
        if header.dtype is None:
            raise UnsupportedMediaType(
                f"the .npy file stores its elements as {header.descr}, which is not a dtype: name "
                f"it with ?dtype= (one of: {names})"
            )
        return header.dtype
    for dtype in candidates:
        if dtype.name == name:
            return dtype
    raise InvalidDescriptor.at(
        ("query", "dtype"),
        f"got {shown(name)}; elements stored as {header.descr} are one of: {names}",
    )


# The literal: as NumPy writes it, but with entries in any order and any spaces between tokens.
# Possessive quantifiers: any literal is matched in linear time.
_ENTRY = re.compile(
    r"""\s*+(?:'(?P<single>\w++)'|"(?P<double>\w++)")\s*+:\s*+
    (?: (?P<string>'[^'\\]*+'|"[^"\\]*+")
      | (?P<flag>True|False)
      | \((?P<sizes>[\dL,\s]*+)\)
      | (?P<structured>[\[(])
    )?+\s*+(?P<comma>,?+)""",
    re.ASCII | re.VERBOSE,
)
_SPACES = " \t\r\n\f\v"
_KEYS = frozenset({"descr", "fortran_order", "shape"})
_NOT_THE_DICT = "the .npy header is not a dict of descr, fortran_order and shape, each once"
_SIZE = re.compile(r"\s*+(0|[1-9]\d{0,18})L?\s*+", re.ASCII)
_DESCR = re.compile(r"(?P<mark>[<>|])(?P<code>[A-Za-z]\d)")
_PRINTABLE = re.compile(r"[ -~]{1,16}")


def _header(literal: str, raw: bytes) -> NpyHeader:
    entries = _entries(literal)
    descr, fortran_order, shape = entries["descr"], entries["fortran_order"], entries["shape"]
    if descr["string"] is None:
        raise MalformedNpy("descr in the .npy header is not a string")
    if fortran_order["flag"] is None:
        raise MalformedNpy("fortran_order in the .npy header is neither True nor False")
    if shape["sizes"] is None:
        raise MalformedNpy("shape in the .npy header is not a tuple of sizes")
    sizes = _sizes(shape["sizes"])
    return _typed(descr["string"][1:-1], fortran_order["flag"] == "True", sizes, raw)


def _entries(literal: str) -> dict[str, re.Match[str]]:
    """The three entries of the dict literal, by key."""
    entries: dict[str, re.Match[str]] = {}
    text = literal.strip(_SPACES)
    if not (text.startswith("{") and text.endswith("}")):
        raise MalformedNpy(_NOT_THE_DICT)
    position, end, comma = 1, len(text) - 1, True
    while text[position:end].strip(_SPACES):
        entry = _ENTRY.match(text, position, end) if comma else None
        key = (entry["single"] or entry["double"]) if entry else None
        if entry is None or key not in _KEYS or key in entries:
            raise MalformedNpy(_NOT_THE_DICT)
        if key == "descr" and entry["structured"]:
            raise UnsupportedMediaType("the .npy file has elements of a structured type")
        entries[key] = entry
        position, comma = entry.end(), bool(entry["comma"])
    if len(entries) != len(_KEYS):
        raise MalformedNpy(_NOT_THE_DICT)
    return entries


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    # (3, 4), (3,) and () are tuples; (3) is a number.
    if not parts[-1].strip():
        parts.pop()
    elif len(parts) == 1:
        raise MalformedNpy("shape in the .npy header is not a tuple of sizes")
    if len(parts) > MAX_RANK:
        raise MalformedNpy(f"the .npy file has more than {MAX_RANK} dimensions")
    matches = [_SIZE.fullmatch(part) for part in parts]
    sizes = tuple(int(match[1]) for match in matches if match is not None)
    if len(sizes) != len(parts) or any(size >= SIZE_LIMIT for size in sizes):
        raise MalformedNpy("a size in the .npy header is not an integer from 0 to 2^63-1")
    return sizes


def _typed(descr: str, fortran_order: bool, shape: tuple[int, ...], raw: bytes) -> NpyHeader:
    match = _DESCR.fullmatch(descr)
    code = match["code"] if match else ""
    dtype = _BY_CODE.get(code)
    itemsize = int(code[1]) if code in _BY_CODE or code in _CANDIDATES else 0
    # "|" is for elements without a byte order: those of one byte, and raw ones ("V").
    if match is None or not itemsize or (match["mark"] == "|" and dtype and itemsize > 1):
        name = f"type {descr!r}" if _PRINTABLE.fullmatch(descr) else "an unknown type"
        if other := _OTHER_TYPES.get(descr[1:]):
            name = f"type {other} ({descr!r})"
        raise UnsupportedMediaType(f"the .npy file has elements of {name}, which is not supported")
    byte_order: ByteOrder = "big" if match["mark"] == ">" and itemsize > 1 else "little"
    return NpyHeader(descr, byte_order, dtype, itemsize, fortran_order, shape, raw)
