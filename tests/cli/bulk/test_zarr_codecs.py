"""Chunks of Zarr arrays: each codec that is read, and what is packed to more than a chunk."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs
import numcodecs.blosc
import numcodecs.lz4
import numcodecs.zstd
import numpy as np
import pytest
import zarr
import zarr.codecs
import zarr.codecs.numcodecs as own

import tensor_round as tr
from tensor_round_cli.bulk.places import Place, PlaceError
from tensor_round_cli.bulk.zarr_arrays import ZarrSource
from tensor_round_cli.bulk.zarr_codecs import unpacked

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
    pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed` codec"),
]

X = np.arange(1000, dtype="<f4").reshape(50, 20)
CHUNKS = (16, 20)

PACKERS_2 = {
    "gzip": numcodecs.GZip(),
    "zstd": numcodecs.Zstd(),
    "blosc": numcodecs.Blosc(),
    "zlib": numcodecs.Zlib(),
    "bz2": numcodecs.BZ2(),
    "lzma": numcodecs.LZMA(),
    "lz4": numcodecs.LZ4(),
    "none": None,
}
FILTERS_2: dict[str, list[Any]] = {
    "shuffle": [numcodecs.Shuffle(4)],
    "delta": [numcodecs.Delta("<f4")],
    "fixedscaleoffset": [numcodecs.FixedScaleOffset(0, 1, "<f4", "<i2")],
    "quantize": [numcodecs.Quantize(5, "<f4")],
    "bitround": [numcodecs.BitRound(23)],
    "checksums": [numcodecs.CRC32(), numcodecs.Fletcher32(), numcodecs.Adler32()],
}


def packed_by(name: str) -> dict[str, Any]:
    return {"compressors": [getattr(own, name)()]}


#: Functions, because each of numcodecs' codecs warns.
CODECS_3: dict[str, Callable[[], dict[str, Any]]] = {
    "gzip": lambda: {"compressors": zarr.codecs.GzipCodec()},
    "zstd": lambda: {"compressors": zarr.codecs.ZstdCodec()},
    "blosc": lambda: {"compressors": zarr.codecs.BloscCodec()},
    "none": lambda: {"compressors": None},
    "crc32c": lambda: {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "packed-crc32c": lambda: {"compressors": [zarr.codecs.Crc32cCodec(), zarr.codecs.GzipCodec()]},
    "transpose": lambda: {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
    "shards": lambda: {"shards": (32, 20), "compressors": zarr.codecs.BloscCodec()},
    "numcodecs": lambda: {"compressors": [own.Shuffle(elementsize=4), own.Zlib(), own.Adler32()]},
    "elements": lambda: {
        "filters": [own.FixedScaleOffset(offset=0, scale=1, dtype="<f4", astype="<i2")]
    },
    **{
        f"numcodecs-{name}": partial(packed_by, name)
        for name in ("GZip", "Zstd", "Blosc", "BZ2", "LZMA", "LZ4")
    },
}


def is_read(path: Path) -> bool:
    source = ZarrSource(Place.of(str(path)), None)
    found = source.read((slice(3, 40), slice(0, 20)))
    return bool(np.array_equal(found, X[3:40])) and found.dtype == X.dtype


@pytest.mark.parametrize("filters", [None, *FILTERS_2.values()], ids=["plain", *FILTERS_2])
@pytest.mark.parametrize("packer", PACKERS_2.values(), ids=PACKERS_2)
def test_codecs_of_format_2(tmp_path: Path, packer: Any, filters: Any) -> None:
    zarr.create_array(
        tmp_path / "x.zarr", data=X, chunks=CHUNKS, zarr_format=2, compressors=packer,
        filters=filters,
    )  # fmt: skip
    assert is_read(tmp_path / "x.zarr")


@pytest.mark.parametrize("options", CODECS_3.values(), ids=CODECS_3)
def test_codecs_of_format_3(tmp_path: Path, options: Callable[[], dict[str, Any]]) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=CHUNKS, **options())
    assert is_read(tmp_path / "x.zarr")


#: Of what no chunk here has.
MUCH = 128 << 20


def frames(blocks: int) -> bytes:
    """A frame of zstd that states no size: blocks of 128 KiB of one byte each (RFC 8878)."""
    headers = ((128 << 13) | (1 << 1) | (number == blocks - 1) for number in range(blocks))
    return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(
        header.to_bytes(3, "little") + b"\0" for header in headers
    )


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: gzip.compress(bytes(MUCH // 8), 1) * 8),
    "zlib": ("zlib", lambda: zlib.compress(bytes(MUCH), 1)),
    "bz2": ("bz2", lambda: bz2.compress(bytes(MUCH // 32)) * 32),
    "lzma": ("lzma", lambda: lzma.compress(bytes(MUCH), preset=0)),
    "blosc": ("blosc", lambda: numcodecs.blosc.compress(bytes(MUCH), b"zstd", 1)),
    "lz4": ("lz4", lambda: numcodecs.lz4.compress(bytes(MUCH))),
    "zstd": ("zstd", lambda: numcodecs.zstd.compress(bytes(MUCH))),
    "zstd-unstated": ("zstd", lambda: frames(MUCH >> 17)),
    "zstd-frames": ("zstd", lambda: numcodecs.zstd.compress(bytes(16)) + frames(MUCH >> 17)),
}
#: Reads the arrays of its arguments, which break the rule, and prints the KiB of memory that this
#: took more than one that is read as it should.
READER = """
import sys, warnings
from tensor_round_cli.bulk.places import Place, PlaceError
from tensor_round_cli.bulk.zarr_arrays import ZarrSource
warnings.simplefilter("ignore")
def peak():  # getrusage has the most of the process that it was forked from, too
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
def read(path):
    source = ZarrSource(Place.of(path), None)
    return source.read((slice(0, 4),))
rule, whole, *others = sys.argv[1:]
read(whole)
before = peak()
for path in others:
    try:
        read(path)
    except PlaceError as error:
        assert rule in str(error), error
    else:
        raise SystemExit(path)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of its memory Linux tells in KiB")
@pytest.mark.parametrize(("name", "bomb"), BOMBS.values(), ids=BOMBS)
def test_a_chunk_is_unpacked_to_its_size_and_no_further(
    tmp_path: Path, name: str, bomb: Callable[[], bytes]
) -> None:
    whole, two, three, sharded = (str(tmp_path / f"{n}.zarr") for n in ("whole", "2", "3", "s"))
    x = np.arange(4, dtype="<f4")
    zarr.create_array(whole, data=x)
    content = bomb()
    zarr.create_array(two, data=x, zarr_format=2, compressors=PACKERS_2[name])
    (tmp_path / "2.zarr" / "0").write_bytes(content)
    packer = getattr(own, {"gzip": "GZip"}.get(name, PACKERS_2[name].__class__.__name__))()
    zarr.create_array(three, data=x, compressors=[packer])
    (tmp_path / "3.zarr" / "c" / "0").write_bytes(content)
    shards: dict[str, Any] = {"chunks": (4,), "shards": (8,), "compressors": [packer]}
    zarr.create_array(sharded, data=np.arange(8, dtype="<f4"), **shards)
    index = np.array([0, len(content), 2**64 - 1, 2**64 - 1], "<u8").tobytes()
    index += zlib_crc32c(index)
    (tmp_path / "s.zarr" / "c" / "0").write_bytes(content + index)
    assert refused("is not 16 bytes packed by", whole, two, three, sharded) < MUCH // 4


def refused(rule: str, *paths: str) -> int:
    """The bytes of memory that it takes to refuse all arrays but the first by that rule."""
    command = [sys.executable, "-c", READER, rule, *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="of its memory Linux tells in KiB")
def test_of_a_stored_chunk_no_more_is_read_than_it_can_have(tmp_path: Path) -> None:
    """Files of 1 GiB, which are sparse: they take none of the disk."""
    whole, two, three, sharded = (str(tmp_path / f"{n}.zarr") for n in ("whole", "2", "3", "s"))
    x = np.arange(8, dtype="<f4")
    zarr.create_array(whole, data=x)
    zarr.create_array(two, data=x, zarr_format=2)
    os.truncate(tmp_path / "2.zarr" / "0", 1 << 30)
    zarr.create_array(three, data=x)
    os.truncate(tmp_path / "3.zarr" / "c" / "0", 1 << 30)
    zarr.create_array(sharded, data=x, chunks=(2,), shards=(8,))
    shard = tmp_path / "s.zarr" / "c" / "0"
    os.truncate(shard, 1 << 30)
    index = np.array([0, 1 << 29, *[2**64 - 1] * 6], "<u8").tobytes()
    with shard.open("ab") as file:
        file.write(index + zlib_crc32c(index))
    assert refused("a stored chunk has more than", whole, two, three, sharded) < 32 << 20


def zlib_crc32c(data: bytes) -> bytes:
    return bytes(numcodecs.CRC32C(location="end").encode(np.frombuffer(data, "u1"))[-4:])


@pytest.mark.parametrize("name", [name for name in PACKERS_2 if name != "none"])
def test_fewer_and_more_bytes_are_none_of_a_chunk(name: str) -> None:
    packed = bytes(PACKERS_2[name].encode(b"0123456789abcdef" * 100))
    assert bytes(unpacked(name, packed, 1600)) == b"0123456789abcdef" * 100
    for size in (1599, 1601, 0, 16, 3200):
        with pytest.raises(ValueError, match=f"a chunk is not {size} bytes packed by {name}"):
            unpacked(name, packed, size)
    for data in (b"", b"\0", packed[:10], packed[:-5], b"x" * 40):
        with pytest.raises(ValueError, match="a chunk is not 1600 bytes"):
            unpacked(name, data, 1600)


def test_several_frames_of_zstd_are_one_chunk() -> None:
    packed = bytes(numcodecs.zstd.compress(b"a" * 100))
    assert unpacked("zstd", packed * 2, 200) == b"a" * 200
    with pytest.raises(ValueError, match="a chunk is not 201 bytes"):
        unpacked("zstd", packed * 2, 201)
    assert unpacked("zstd", frames(2), 2 << 17) == bytes(2 << 17)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("place", ["compressor", "filters"])
@pytest.mark.parametrize("dtype", ["<f4", "|O", "|V4"])
def test_no_chunk_is_unpickled(tmp_path: Path, place: str, dtype: str) -> None:
    folder = tmp_path / "x.zarr"
    folder.mkdir()
    settings = {"id": "pickle"}
    document = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": dtype, "fill_value": 0,
        "order": "C", "filters": None, "compressor": None,
        place: settings if place == "compressor" else [settings],
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(document))
    sprung = tmp_path / "sprung"
    (folder / "0").write_bytes(pickle.dumps(Trap(sprung)))
    source, name = Place.of(str(folder)), None if dtype == "|O" else "float32"
    with pytest.raises((PlaceError, tr.UnsupportedMediaType, ValueError)):
        ZarrSource(source, name).read((slice(0, 4),))
    assert not sprung.exists()


REFUSED: dict[str, Callable[[], dict[str, Any]]] = {
    "packed twice": lambda: {"compressors": [zarr.codecs.GzipCodec(), zarr.codecs.ZstdCodec()]},
    "a packed shard": lambda: {
        "serializer": zarr.codecs.ShardingCodec(chunk_shape=(16, 20)),
        "compressors": [zarr.codecs.GzipCodec()],
    },
    "other elements": lambda: {"filters": [own.AsType(encode_dtype="<f8", decode_dtype="<f4")]},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_what_has_no_bound_is_refused(
    tmp_path: Path, options: Callable[[], dict[str, Any]]
) -> None:
    zarr.create_array(
        tmp_path / "x.zarr", shape=X.shape, dtype=X.dtype, chunks=(32, 20), **options()
    )
    with pytest.raises(PlaceError, match="are not read: only one of gzip"):
        ZarrSource(Place.of(str(tmp_path / "x.zarr")), None)


@pytest.mark.parametrize("dtype", ["S1000000000", "V1000000000", "O"])
def test_elements_of_any_size_are_refused(tmp_path: Path, dtype: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, zarr_format=2, filters=[numcodecs.Delta("<f4")])
    document = tmp_path / "x.zarr" / ".zarray"
    settings = json.loads(document.read_text())
    settings["filters"] = [
        {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": dtype, "astype": "<i2"}
    ]
    document.write_text(json.dumps(settings))
    with pytest.raises((PlaceError, ValueError), match=r"type|object"):
        ZarrSource(Place.of(str(tmp_path / "x.zarr")), None)
