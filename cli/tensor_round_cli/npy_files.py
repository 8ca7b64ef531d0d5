"""Files as arrays, .npy or raw: memory-mapped, so that a file may be larger than memory.

Headers are parsed by :mod:`tensor_round.contract.wire.npy`; nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import InvalidDescriptor, MalformedNpy, UnsupportedMediaType
from tensor_round.contract.host_memory import Array
from tensor_round.contract.wire import npy

#: The path that stands for standard input or output.
PIPE = "-"


class DTypeNeeded(ValueError):
    """The file does not state its dtype, or the stated one is not the one given."""


@dataclass(frozen=True, slots=True)
class NpyArray:
    """The data of a .npy file, with its header."""

    header: npy.NpyHeader
    dtype: DType
    array: Array


def read_npy(path: str, dtype_name: str | None) -> NpyArray:
    """Map a .npy file, or read one from standard input.

    ``dtype_name`` is the dtype of elements that .npy has no name for (bfloat16, fp8).
    Raises :class:`DTypeNeeded`, :class:`MalformedNpy`, :class:`UnsupportedMediaType` and
    OSError.
    """
    if path == PIPE:
        data = sys.stdin.buffer.read()
        header, dtype = read_header(data[: npy.MAX_HEADER_LENGTH], len(data), dtype_name)
        flat = np.frombuffer(data, np.uint8, offset=header.header_length)
    else:
        with _opened_to_map(path) as file:
            prefix, size = file.read(npy.MAX_HEADER_LENGTH), os.fstat(file.fileno()).st_size
            header, dtype = read_header(prefix, size, dtype_name)
            flat = mapped(file, header.header_length, header.data_length, "r")
    return NpyArray(header, dtype, shaped(flat, header, dtype))


def read_bytes(path: str) -> Array:
    """Map a raw file, or read standard input; raises OSError."""
    if path == PIPE:
        return np.frombuffer(sys.stdin.buffer.read(), np.uint8)
    with _opened_to_map(path) as file:
        return mapped(file, 0, os.fstat(file.fileno()).st_size, "r")


@contextlib.contextmanager
def create_npy(path: str, like: NpyArray, dtype: DType) -> Iterator[Array]:
    """Create a .npy file of ``dtype`` with the shape and orders of ``like``; yield its data.

    The data is to be filled; see :func:`create_file`.
    """
    header: npy.NpyHeader | int = like.header
    if dtype is not like.dtype:
        header = npy.read_header(npy.header_of(dtype, like.header.shape, like.header))
    assert isinstance(header, npy.NpyHeader)
    with create_file(path, header.raw, header.data_length) as flat:
        yield shaped(flat, header, dtype)


@contextlib.contextmanager
def create_file(path: str, header: bytes, length: int) -> Iterator[Array]:
    """Create a file of ``header`` and ``length`` bytes; yield the bytes, zeros to be filled.

    A temporary file in the same folder is mapped, with its disk space reserved, and renamed when
    the block ends without an error, so ``path`` never holds a partial file. A pipe or device is
    written when the block ends.
    """
    if path == PIPE or not is_plain(path):
        try:
            memory = np.zeros(length, np.uint8)
        except MemoryError:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), path) from None
        yield memory
        with _opened(path) as stream:
            stream.write(header)
            stream.write(memory.data)
        return
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "x+b") as file:
            file.write(header)
            file.flush()
            reserve(file, len(header) + length)
            yield mapped(file, len(header), length, "r+")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def read_header(prefix: bytes, size: int, dtype_name: str | None) -> tuple[npy.NpyHeader, DType]:
    """The header of a file of ``size`` bytes, and its dtype; raises as :func:`read_npy`."""
    header = npy.read_header(prefix)
    if isinstance(header, int):
        raise MalformedNpy("the file ends within its .npy header")
    expected = header.header_length + header.data_length
    if size != expected:
        raise MalformedNpy(f"the .npy header calls for a file of {expected} bytes, got {size}")
    try:
        return header, npy.resolve_dtype(header, dtype_name)
    except InvalidDescriptor as error:
        raise DTypeNeeded(error.faults[0].msg) from None
    except UnsupportedMediaType:
        raise DTypeNeeded(
            f"the file states its elements as {header.descr}, which is not their dtype"
        ) from None


def mapped(file: BinaryIO, offset: int, length: int, mode: Literal["r", "r+"]) -> Array:
    """So many bytes of a file as an array."""
    if length == 0:
        return np.empty(0, np.uint8)  # an empty file cannot be mapped
    data: Array = np.memmap(file, np.uint8, mode, offset=offset, shape=(length,))
    return data


def shaped(flat: Array, header: npy.NpyHeader, dtype: DType) -> Array:
    """The bytes of a file as elements."""
    stored = dtype.numpy.newbyteorder(">") if header.byte_order == "big" else dtype.numpy
    return flat.view(stored).reshape(header.shape, order="F" if header.fortran_order else "C")


def reserve(file: BinaryIO, size: int) -> None:
    """Set the file's length, and allocate its disk blocks where the system can.

    A write to a mapped page without a block on a full disk kills the process (SIGBUS).
    """
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def is_plain(path: str) -> bool:
    """Whether the path is a file, or none yet: no pipe and no device."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _opened_to_map(path: str) -> BinaryIO:
    if not is_plain(path) and not os.path.isdir(path):
        why = "this is a pipe or a device; pass - to read standard input"
        raise OSError(errno.EINVAL, why, path)
    return open(path, "rb")


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == PIPE:
        return contextlib.nullcontext(sys.stdout.buffer)
    return open(path, "wb")
