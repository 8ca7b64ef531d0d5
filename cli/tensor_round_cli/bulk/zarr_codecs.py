"""The codecs of Zarr arrays that are read. Each unpacks a chunk to its size, and no further.
Of a stored chunk no more is read than its elements can take when they are packed.

zarr unpacks whatever a chunk holds, before it looks at the size: gigabytes from a few bytes. Which
bytes a chunk has to have follows from its shape and from the codecs between it and the compressor,
of which a chunk may therefore have one.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numcodecs.abc
import numcodecs.blosc
import numcodecs.lz4
import numcodecs.zstd
import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import RangeByteRequest, Store

from tensor_round.contract.quoting import shown

from .places import PlaceError

#: Of liblzma, whose dictionary is as large as the chunk says; presets need 65 MiB at most.
_LZMA_BYTES = 128 << 20


def _gzip(data: bytes, size: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(size + 1)


def _zlib(data: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(data, size + 1)
    _check_end(unpacker.eof, content, size)
    return content


def _bz2(data: bytes, size: int) -> bytes:
    with bz2.BZ2File(io.BytesIO(data)) as file:
        return file.read(size + 1)


def _lzma(data: bytes, size: int) -> bytes:
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_BYTES)
    content = unpacker.decompress(data, size + 1)
    _check_end(unpacker.eof, content, size)
    return content


def _check_end(is_at_end: bool, content: bytes, size: int) -> None:
    if not is_at_end and len(content) <= size:
        raise EOFError("it is cut off")


def _blosc(data: bytes, size: int) -> bytearray:
    _check_stated(data[4:8], size)
    _check_stated(data[12:16], len(data))  # the library reads as many, whether they are there
    target = bytearray(size)
    numcodecs.blosc.decompress(data, target)
    return target


def _lz4(data: bytes, size: int) -> bytearray:
    _check_stated(data[:4], size)  # numcodecs writes them before the block
    target = bytearray(size)
    numcodecs.lz4.decompress(data, target)
    return target


def _check_stated(field: bytes, size: int) -> None:
    stated = int.from_bytes(field, "little")
    if stated != size:
        raise ValueError(f"it states {stated}")


def _zstd(data: bytes, size: int) -> Any:
    target = bytearray(size)
    # Raises if the frames hold more; those that state no size must hold exactly as much.
    numcodecs.zstd.decompress(data, target)
    if _first_frame_bytes(data) in (size, None):
        return target
    # Fewer bytes, or several frames: now that they are known to be no more, they can be counted.
    return numcodecs.zstd.decompress(data)


def _first_frame_bytes(data: bytes) -> int | None:
    """The size that a frame of zstd states, if it does (RFC 8878, 3.1.1.1)."""
    flags = data[4]
    is_single = bool(flags & 0x20)
    length = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    start = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    stated = int.from_bytes(data[start : start + length], "little")
    return stated + (256 if length == 2 else 0) if length else None


#: The compressors, by their names in format 2. In format 3 the three of the specification have the
#: same ones, and numcodecs' a prefix.
_UNPACK: dict[str, Callable[[bytes, int], Any]] = {
    "gzip": _gzip,
    "zstd": _zstd,
    "blosc": _blosc,
    "zlib": _zlib,
    "bz2": _bz2,
    "lzma": _lzma,
    "lz4": _lz4,
}
#: Of these for bytes that they did not pack.
_ERRORS = (
    *(ValueError, RuntimeError, IndexError, EOFError, OSError),
    *(zlib.error, lzma.LZMAError),
)
#: Bytes that codecs add to those that they are given; they unpack to fewer.
_ADDED = {
    **dict.fromkeys(("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"), 4),
    "shuffle": 0,
}
#: Codecs of elements: each is one element again, of the type that their settings have.
_OF_ELEMENTS = ("transpose", "delta", "bitround", "quantize", "fixedscaleoffset")
#: How format 3 makes bytes of elements.
_SHARDING = "sharding_indexed"
_TO_BYTES = ("bytes", "endian")
#: The most bytes that are read for an element: twice those of the longest. No compressor adds half.
_ELEMENT_BYTES = 16
#: The same for a chunk: its compressor's head, checksums, and its place in the index of a shard.
_CHUNK_BYTES = 4096
#: What any stored object may have besides.
_OBJECT_BYTES = 1 << 20


def unpacked(name: str, data: bytes, size: int) -> Any:
    """The ``size`` bytes that a compressor has packed; raises ValueError for fewer or more."""
    try:
        content = _UNPACK[name](data, size)
    except _ERRORS as error:
        raise ValueError(f"a chunk is not {size} bytes packed by {name}: {error}") from None
    if len(content) != size:
        raise ValueError(f"a chunk is not {size} bytes packed by {name}")
    return content


def bounded(metadata: Any) -> Any:
    """The metadata of the same array, with codecs that read it within bounds.

    Raises :class:`PlaceError` for codecs that have none.
    """
    if metadata.zarr_format == 3:
        return replace(metadata, codecs=_bounded_codecs(metadata.codecs))
    nbytes = math.prod(metadata.chunks) * metadata.dtype.to_native_dtype().itemsize
    codecs = [*(metadata.filters or ()), *filter(None, [metadata.compressor])]
    *filters, last = [*_bounded_numcodecs(codecs, nbytes)] or [None]
    return replace(metadata, filters=filters or None, compressor=last)


def most_bytes(metadata: Any) -> int:
    """The most bytes that are read of a stored chunk of this array, or of a shard."""
    if metadata.zarr_format == 3:
        return _OBJECT_BYTES + _most_bytes(metadata.codecs, metadata.chunk_grid.chunk_shape)
    return _OBJECT_BYTES + _most_bytes((), metadata.chunks)


def _most_bytes(codecs: Iterable[Any], shape: tuple[int, ...]) -> int:
    count: int = math.prod(shape)
    for codec in codecs:
        if codec.to_dict()["name"] == _SHARDING:
            inner: tuple[int, ...] = tuple(codec.chunk_shape)
            chunks = count // max(1, math.prod(inner))
            return _CHUNK_BYTES + chunks * _most_bytes(codec.codecs, inner)
    return _CHUNK_BYTES + count * _ELEMENT_BYTES


class BoundedStore(Store):
    """What is read of a store: no object beyond ``most`` bytes, wherever the store can give a part.

    Each version of zarr has further ways to read, which a store derives from :meth:`get` where it
    has none of its own. So this is not a wrapper of zarr's, which passes them on.
    """

    supports_writes = supports_deletes = supports_listing = False

    def __init__(self, store: Any, most: int) -> None:
        super().__init__(read_only=True)
        self._store = store
        self._most = most

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of an object; raises ValueError for more than ``most``."""
        most = self._most
        wanted = RangeByteRequest(0, most + 1) if byte_range is None else byte_range
        if isinstance(wanted, RangeByteRequest) and wanted.end - wanted.start > most + 1:
            raise self._excess()
        content = await self._store.get(key, prototype, wanted)
        if content is not None and len(content) > most:
            raise self._excess()
        return content

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        """As :meth:`get` for each key and range."""
        return [await self.get(key, prototype, each) for key, each in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        return bool(await self._store.exists(key))

    def _not_offered(self, *_: Any) -> Any:
        """Nothing is written, deleted or listed by it; a store must have methods for that."""
        raise NotImplementedError

    set = delete = list = list_prefix = list_dir = _not_offered

    def _excess(self) -> ValueError:
        return ValueError(f"a stored chunk has more than {self._most} bytes")


class _PackedOfFormat2(numcodecs.abc.Codec):
    """A compressor of format 2, for reading."""

    codec_id = "tensor-round-bounded"

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError

    def decode(self, buf: Any, out: Any = None) -> Any:
        return unpacked(self._name, bytes(buf), self._size)


def _bounded_numcodecs(codecs: Iterable[Any], nbytes: int) -> Iterable[Any]:
    """Codecs of format 2, from the array's side; ``nbytes`` are those of a chunk."""
    is_packed = False
    for codec in codecs:
        name, settings = codec.codec_id, codec.get_config()
        if name in _UNPACK and not is_packed:
            is_packed = True
            yield _PackedOfFormat2(name, nbytes)
            continue
        if name in _ADDED:
            nbytes += _ADDED[name]
        elif name in _OF_ELEMENTS and not is_packed:
            given, made = _types(settings)
            if given is not None and made is not None:
                nbytes = nbytes // given.itemsize * made.itemsize
        else:
            raise _refusal(name)
        yield codec


def _bounded_codecs(codecs: Iterable[Any]) -> tuple[Any, ...]:
    """Codecs of format 3, from the array's side."""
    found: list[Any] = []
    is_packed, added = False, 0
    for codec in codecs:
        document = codec.to_dict()
        name = document["name"].removeprefix("numcodecs.")
        if name == _SHARDING:
            # Its inner chunks have sizes of their own; those of shards are not known before.
            is_packed = True
            codec = replace(
                codec,
                codecs=_bounded_codecs(codec.codecs),
                index_codecs=_bounded_codecs(codec.index_codecs),
            )
        elif name in _UNPACK and not is_packed:
            is_packed = True
            codec = _PackedOfFormat3(name, added)
        elif name in _ADDED:
            added += _ADDED[name]
        elif name in _OF_ELEMENTS:
            _types(document.get("configuration", {}))
        elif name not in _TO_BYTES:
            raise _refusal(name)
        found.append(codec)
    return tuple(found)


@dataclass(frozen=True)
class _PackedOfFormat3(BytesBytesCodec):
    """A compressor of format 3, for reading; ``added`` is what other codecs add to a chunk."""

    name: str
    added: int

    is_fixed_size = False

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        """Unpack chunks, each with its shape and type; None stays None."""
        found = []
        for chunk, spec in chunks_and_specs:
            if chunk is not None:
                size = math.prod(spec.shape) * spec.dtype.to_native_dtype().itemsize + self.added
                content = await asyncio.to_thread(unpacked, self.name, chunk.to_bytes(), size)
                chunk = spec.prototype.buffer.from_bytes(content)
            found.append(chunk)
        return found

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError


def _types(settings: dict[str, Any]) -> tuple[np.dtype[Any] | None, np.dtype[Any] | None]:
    """The types that a codec of elements reads and writes, if it names them.

    Raises :class:`PlaceError` for one that is no number: a text may have any size.
    """
    types: list[np.dtype[Any] | None] = []
    for key in ("dtype", "astype"):
        found = None if settings.get(key) is None else np.dtype(settings[key])
        if found is not None and found.kind not in "fiu":
            raise PlaceError(f"a codec has elements of type {found}, which is not served")
        types.append(found)
    return types[0], types[1]


def _refusal(name: str) -> PlaceError:
    return PlaceError(
        f"chunks packed by {shown(name)} are not read: only one of {', '.join(_UNPACK)} for each "
        f"chunk, and {', '.join([*_ADDED, *_OF_ELEMENTS])}"
    )
