"""Zarr arrays, in folders of this host and at URLs, by the library zarr.

A target's chunks are written first and its metadata document last. Without the document no reader
takes the chunks for an array. That holds in folders and in object stores, which cannot rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import UnsupportedMediaType
from tensor_round.contract.host import Array
from tensor_round.contract.quoting import one_line
from tensor_round.contract.wire import npy

from . import durable, npy_files
from .places import EXISTS, Place, PlaceError, missing, tried
from .tile_grid import Box, Tiles

#: The documents of which one stands where a Zarr array or group is.
_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")
#: The most bytes of a chunk of a new array.
_CHUNK_BYTES = 16 << 20


class ZarrSource:
    """A Zarr array, of either version of the format."""

    def __init__(self, place: Place, dtype_name: str | None) -> None:
        """Open the array; raises the errors of :func:`npy_files.read_npy`."""
        self._place, given = place, _opened(place)
        #: Shape, chunks, codecs and attributes; the type is not public in zarr.
        self.metadata = given.metadata
        self.header, self.dtype = _header(given, dtype_name)
        self.grid = tuple(max(1, side) for side in given.chunks)
        from .zarr_codecs import BoundedStore, bounded, most_bytes  # they need the extra too

        zarr, metadata = _library(), bounded(given.metadata)
        store = BoundedStore(given.store, most_bytes(given.metadata))
        path = zarr.storage.StorePath(store, given.path)
        self._array = zarr.Array(zarr.AsyncArray(metadata=metadata, store_path=path))

    def state(self) -> dict[str, str]:
        """Its metadata; changed chunks are not noticed."""
        return {"metadata": _digest(_opened(self._place).metadata)}

    def read(self, box: Box) -> Array:
        """The elements of a tile, in new memory."""
        again = self._place.path is None
        x = tried(self._place.name, lambda: np.asarray(self._array[box]), again=again)
        return x.view(self.dtype.numpy) if x.dtype.kind == "V" else x


class ZarrTarget:
    """A new Zarr array."""

    def __init__(self, place: Place, metadata: Any, *, overwrite: bool = False) -> None:
        """``metadata`` is that of another array; ``overwrite`` lets an array there be replaced."""
        if place.is_http:
            raise PlaceError("web servers store no arrays")
        self._place, self.journal = place, place / ".tensor-round-journal"
        self._array = _array(metadata, _store(place, read_only=False))
        self.grid = tuple(max(1, side) for side in self._array.shards or self._array.chunks)
        self.layout = f"Zarr, metadata {_digest(metadata)}"
        self._overwrite = overwrite
        self._lock: int | None = None

    def begin(self, *, resumed: bool) -> bool:
        """Lock the folder, and see whether there is an array or group; URLs have no locks."""
        if self._place.path is not None:
            self._place.path.mkdir(exist_ok=True)
            self._lock = durable.lock(self._place.path)
        if not any((self._place / name).read() is not None for name in _DOCUMENTS):
            return resumed
        if not self._overwrite:
            raise PlaceError(f"{self._place.name} {EXISTS}")
        _opened(self._place)  # refuses a group, which has other arrays
        self._remove()
        return False

    def memory(self, box: Box, x: Array) -> Array:
        """The operand's memory if it was read from a store, else new memory."""
        return x if x.flags.writeable else np.empty_like(x, subok=False)

    def write(self, box: Box, results: Array) -> None:
        """Write the tile's chunks."""
        stored = results if results.dtype.kind in "fiu" else results.view(self._array.dtype)
        again = self._place.path is None
        tried(self._place.name, lambda: self._array.__setitem__(box, stored), again=again)

    def sync(self, boxes: Sequence[Box]) -> None:
        """Sync the chunks; a store at a URL has written them when a call returns."""
        if (root := self._place.path) is not None:
            durable.sync_paths((root / key for box in boxes for key in self._keys(box)), root)

    def publish(self) -> None:
        """Write the metadata document."""
        tried(self._place.name, lambda: self._array.update_attributes({}))
        if (root := self._place.path) is not None:
            durable.sync_paths((root / name for name in _DOCUMENTS), root)

    def discard(self) -> None:
        """Remove the folder if it is empty."""
        if self._place.path is not None:
            with contextlib.suppress(OSError):
                self._place.path.rmdir()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)

    def _remove(self) -> None:
        """Remove the array that is there, its documents first, and not this run's lock."""
        if (root := self._place.path) is not None:
            found = sorted(root.iterdir(), key=lambda path: path.name not in _DOCUMENTS)
            for path in found:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        else:
            for name in _DOCUMENTS:
                (self._place / name).remove()
            self._place.call("rm", recursive=True)

    def _keys(self, box: Box) -> Iterator[str]:
        chunks = (
            range(side.start // size, -(-side.stop // size))
            for side, size in zip(box, self.grid, strict=True)
        )
        return map(self._array.metadata.encode_chunk_key, itertools.product(*chunks))


def new_metadata(header: npy.NpyHeader, dtype: DType, tile_bytes: int) -> Any:
    """The metadata of a new array; its chunks are runs of a .npy file's memory."""
    zarr = _library()
    ones, limit = (1,) * len(header.shape), min(tile_bytes, _CHUNK_BYTES) // dtype.itemsize
    chunks = Tiles.cut(header.shape, ones, limit, header.fortran_order)
    # The types that .npy has no name for are raw bytes, for which version 3 has no stable form.
    is_raw = dtype.numpy.kind not in "fiu"
    stored, version = (f"V{dtype.itemsize}", 2) if is_raw else (dtype.numpy, 3)
    array = zarr.create_array(
        {}, shape=header.shape, chunks=chunks.tile, dtype=stored, zarr_format=version
    )
    return array.metadata


def _header(array: Any, dtype_name: str | None) -> tuple[npy.NpyHeader, DType]:
    """The header of the same array as a .npy file in C order."""

    def read(descr: str) -> tuple[npy.NpyHeader, DType]:
        return npy_files.read_header(npy.write_header(descr, False, array.shape), None, dtype_name)

    try:
        header, dtype = read(array.dtype.str)
    except UnsupportedMediaType:
        raise UnsupportedMediaType(
            f"the Zarr array has elements of type {array.dtype}, which is not served"
        ) from None
    return read(npy.descr_of(dtype)) if header.dtype is None else (header, dtype)


def _library() -> Any:
    # Imported here: it is in an extra, and takes half a second.
    try:
        import zarr
    except ImportError as error:
        raise missing("zarr", error) from None
    warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
    return zarr


def _opened(place: Place) -> Any:
    if place.path is not None and not any((place.path / name).exists() for name in _DOCUMENTS):
        raise PlaceError("there is no such directory with a Zarr array")
    zarr, store = _library(), _store(place, read_only=True)
    node = tried(place.name, lambda: zarr.open(store, mode="r"), again=place.path is None)
    if isinstance(node, zarr.Group):
        names = one_line(", ".join(sorted(node.array_keys()))) or "none"
        raise PlaceError(f"this is a Zarr group: name one of its arrays ({names})")
    return node


def _store(place: Place, *, read_only: bool) -> Any:
    storage = _library().storage
    if place.path is not None:
        return storage.LocalStore(place.path, read_only=read_only)
    place.file_system()
    return storage.FsspecStore.from_url(place.text, read_only=read_only)


def _array(metadata: Any, store: Any) -> Any:
    """An array in a store that does not have its document yet.

    All its chunks are written: one that is "empty" may have other NaNs than the fill value.
    """
    zarr = _library()
    path = zarr.storage.StorePath(store)
    array = zarr.AsyncArray(metadata=metadata, store_path=path, config={"write_empty_chunks": True})
    return zarr.Array(array)


def _digest(metadata: Any) -> str:
    """The SHA-256 of the metadata documents."""
    documents: dict[str, Any] = {}
    _array(metadata, _library().storage.MemoryStore(documents)).update_attributes({})
    texts = sorted((name, document.to_bytes()) for name, document in documents.items())
    return hashlib.sha256(repr(texts).encode()).hexdigest()
