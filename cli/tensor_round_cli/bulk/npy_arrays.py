"""Arrays in .npy files: mapped ones of this host, and those at a URL."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.host import Array
from tensor_round.contract.quoting import one_line
from tensor_round.contract.wire import npy

from . import durable, npy_files
from .places import Place, PlaceError, without_secrets
from .tile_grid import Box, view

#: The facts of file systems that tell one version of a file from another.
_VERSION = ("size", "mtime", "LastModified", "Last-Modified", "last_modified", "created", "ETag",
            "etag", "Content-MD5", "md5Hash", "generation", "version_id")  # fmt: skip


class NpySource:
    """A .npy file that is mapped into memory, or standard input."""

    def __init__(self, path: Path, dtype_name: str | None) -> None:
        """Map the file; raises the errors of :func:`npy_files.read_npy`."""
        self.tensor = npy_files.read_npy(str(path), dtype_name)
        self.header, self.dtype = self.tensor.header, self.tensor.dtype
        self.grid = (1,) * len(self.header.shape)
        self._path = path

    def state(self) -> dict[str, str]:
        """Its size and time."""
        facts = os.stat(self._path)
        return {"size": str(facts.st_size), "mtime": str(facts.st_mtime_ns)}

    def read(self, box: Box) -> Array:
        """A view of the file."""
        return view(self.tensor.array, box)


class RemoteNpy:
    """A .npy file at a URL, of which parts are read."""

    def __init__(self, place: Place, dtype_name: str | None) -> None:
        """Read the header; raises the errors of :func:`npy_files.read_npy`."""
        self._place = place
        size = place.call("info").get("size")
        if not size:
            raise PlaceError("the server does not state its size")
        if place.is_http:
            # A server without ranges sends the whole file. Only file objects stop reading then.
            with place.call("open", cache_type="none") as file:
                try:
                    file.seek(size - 1)
                    file.read(1)
                except Exception as error:  # also aiohttp's, which need not be installed
                    why = one_line(without_secrets(str(error)))
                    raise PlaceError(f"the server sends no parts of files ({why})") from None
        prefix = self._part(0, min(size, npy.MAX_HEADER_LENGTH))
        self.header, self.dtype = npy_files.read_header(prefix, size, dtype_name)
        self.grid = (1,) * len(self.header.shape)

    def state(self) -> dict[str, str]:
        """What the file system says of the file's version."""
        self._place.call("invalidate_cache")
        info: dict[str, Any] = self._place.call("info")
        return {name: str(info[name]) for name in _VERSION if info.get(name) is not None}

    def read(self, box: Box) -> Array:
        """One part of the file: tiles without chunks are runs of memory."""
        strides = self.header.layout(self.dtype).strides
        start = sum(side.start * stride for side, stride in zip(box, strides, strict=True))
        shape = tuple(side.stop - side.start for side in box)
        first = self.header.header_length + start * self.dtype.itemsize
        data = self._part(first, first + math.prod(shape) * self.dtype.itemsize)
        return npy_files.shaped(np.frombuffer(data, np.uint8), self.header, self.dtype, shape)

    def _part(self, start: int, end: int) -> bytes:
        data: bytes = self._place.call("cat_file", start, end)
        if len(data) != end - start:
            raise PlaceError(f"{self._place.name}: {len(data)} bytes for {start} to {end}")
        return data


class NpyTarget:
    """A .npy file: a partial file in the same folder, mapped, gets its name when it is whole."""

    def __init__(self, path: Path, header: npy.NpyHeader, dtype: DType) -> None:
        self._path = path.resolve()
        self._partial = self._path.with_name(f".{self._path.name}.partial")
        self._header, self._dtype = header, dtype
        self.grid = (1,) * len(header.shape)
        self.layout = f".npy, {header.descr}, {'F' if header.fortran_order else 'C'}"
        self._lock: int | None = None
        self.journal = Place.of(str(self._path.with_name(f".{self._path.name}.journal")))

    def begin(self, *, resumed: bool) -> bool:
        """Lock and map the partial file, a new one with its disk space reserved."""
        self._lock = durable.lock(self._partial)
        raw, length = self._header.raw, self._header.data_length
        # By its descriptor: the name may lead elsewhere by now.
        with open(self._lock, "r+b", closefd=False) as file:
            is_there = file.read(len(raw)) == raw and file.seek(0, 2) == len(raw) + length
            if not (resumed and is_there):
                file.truncate(0)
                file.seek(0)
                file.write(raw)
                file.flush()
                try:
                    npy_files.reserve(file, len(raw) + length)
                except OSError:  # the disk is full
                    self.discard()
                    raise
            flat = npy_files.mapped(file, len(raw), length, "r+")
        self._array = npy_files.shaped(flat, self._header, self._dtype)
        return resumed and is_there

    def memory(self, box: Box, x: Array) -> Array:
        """A view of the file."""
        return view(self._array, box)

    def write(self, box: Box, results: Array) -> None:
        """Do nothing: the results are in the file."""

    def sync(self, boxes: Sequence[Box]) -> None:
        """Sync the file; the kernel knows which pages are dirty."""
        durable.sync_paths([self._partial], self._partial.parent)

    def publish(self) -> None:
        """Rename the file."""
        os.replace(self._partial, self._path)
        durable.sync_paths([], self._path.parent)

    def discard(self) -> None:
        """Remove the partial file."""
        self._partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
