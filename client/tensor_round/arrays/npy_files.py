"""Whole files as arrays, .npy or bytes alone: mapped, so that a file may be larger than memory.

Headers are read by the strict reader of :mod:`.wire.npy`; nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from ..dtypes import DType
from ..errors import InvalidDescriptor, MalformedNpy, UnsupportedMediaType
from ..wire import npy
from .host import Array

#: A path that means standard input or output.
PIPE = "-"


class DTypeNeeded(ValueError):
    """The file does not say what its elements are, or not what it was said they are."""


@dataclass(frozen=True, slots=True)
class NpyArray:
    """An array, and the header of the .npy file that it is the data of."""

    header: npy.NpyHeader
    dtype: DType
    array: Array


def read(path: str, dtype_name: str | None) -> NpyArray:
    """Map a file, or read standard input.

    ``dtype_name`` says what elements are that .npy has no name for (bfloat16, fp8).
    Raises :class:`DTypeNeeded`, :class:`MalformedNpy`, :class:`UnsupportedMediaType` and
    OSError.
    """
    if path == PIPE:
        data = sys.stdin.buffer.read()
        header, dtype = _header(data[: npy.MAX_HEADER_LENGTH], len(data), dtype_name)
        flat = np.frombuffer(data, np.uint8, offset=header.header_length)
    else:
        with open(path, "rb") as file:
            prefix, size = file.read(npy.MAX_HEADER_LENGTH), os.fstat(file.fileno()).st_size
            header, dtype = _header(prefix, size, dtype_name)
            flat = _mapped(file, header.header_length, header.data_length, "r")
    return NpyArray(header, dtype, _shaped(flat, header, dtype))


def read_bytes(path: str) -> Array:
    """Map a file that is bytes and nothing else, or read standard input; raises OSError."""
    if path == PIPE:
        return np.frombuffer(sys.stdin.buffer.read(), np.uint8)
    with open(path, "rb") as file:
        return _mapped(file, 0, os.fstat(file.fileno()).st_size, "r")


@contextlib.contextmanager
def written(path: str, like: NpyArray) -> Iterator[Array]:
    """Give an array like another one, whose data become a file when the block is left.

    The file has the other's header, and is written as :func:`created` does.
    """
    with created(path, like.header.raw, like.header.data_length) as flat:
        yield _shaped(flat, like.header, like.dtype)


@contextlib.contextmanager
def created(path: str, head: bytes, length: int) -> Iterator[Array]:
    """Give so many zeros, which become a file behind ``head`` when the block is left.

    The file is written beside its place, with room reserved, and renamed only when all
    went well: there is never half a file. What is no plain file (a pipe, a device) is
    written at the end.
    """
    if path == PIPE or not _is_plain(path):
        memory = np.zeros(length, np.uint8)
        yield memory
        with _opened(path) as stream:
            stream.write(head)
            stream.write(memory.data)
        return
    place = Path(path).resolve()
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        with open(beside, "x+b") as file:
            file.write(head)
            file.flush()
            _reserve(file, len(head) + length)
            yield _mapped(file, len(head), length, "r+")
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def _header(prefix: bytes, size: int, dtype_name: str | None) -> tuple[npy.NpyHeader, DType]:
    header = npy.read_header(prefix)
    if header is None:
        raise MalformedNpy("the file ends within its .npy header")
    expected = header.header_length + header.data_length
    if size != expected:
        raise MalformedNpy(f"the .npy header calls for a file of {expected} bytes, got {size}")
    try:
        return header, npy.resolve_dtype(header, dtype_name)
    except InvalidDescriptor as error:
        raise DTypeNeeded(error.faults[0].msg) from None
    except UnsupportedMediaType:
        if header.dtype is not None:
            raise
        raise DTypeNeeded(
            f"the file says only that elements are {header.descr}, not of which type"
        ) from None


def _mapped(file: BinaryIO, offset: int, length: int, mode: Literal["r", "r+"]) -> Array:
    if length == 0:
        return np.empty(0, np.uint8)  # nothing cannot be mapped
    data: Array = np.memmap(file, np.uint8, mode, offset=offset, shape=(length,))
    return data


def _shaped(flat: Array, header: npy.NpyHeader, dtype: DType) -> Array:
    stored = dtype.numpy.newbyteorder(">") if header.byte_order == "big" else dtype.numpy
    return flat.view(stored).reshape(header.shape, order="F" if header.fortran_order else "C")


def _reserve(file: BinaryIO, size: int) -> None:
    """Make the file that long, with room for it on the disk.

    A mapped file without room ends the process when it is written to.
    """
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == PIPE:
        return contextlib.nullcontext(sys.stdout.buffer)
    return open(path, "wb")
