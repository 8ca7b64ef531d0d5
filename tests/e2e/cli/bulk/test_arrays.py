"""``tensor-round round`` on arrays in files, folders, stores and at URLs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import ml_dtypes
import numpy as np
import pytest
import typer
import zarr

from support.cases.array_cases import bits, expected_bits, patterns
from support.cases.bulk_runs import is_rounded, rounded_requests, save
from support.command_line import bad, good
from support.http.file_server import FileServer
from support.services.server import Service
from support.small_disk import small_disk
from tensor_round_cli.rounding import round_array

X = patterns("float32", 90_000).reshape(300, 300)
#: Of X: three tiles and a rest.
TILE_BYTES = 100 * 300 * 4

SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("in.npy", {}),
    "zarr 3": ("in.zarr", {"chunks": (64, 100), "attributes": {"unit": "K"}}),
    "sharded": ("in.zarr", {"chunks": (32, 50), "shards": (64, 100), "fill_value": float("nan")}),
    "zarr 2": ("in.zarr", {"chunks": (64, 100), "zarr_format": 2, "order": "F"}),
}


@pytest.mark.parametrize("to", ["out.npy", "out.zarr"])
@pytest.mark.parametrize(("name", "options"), SOURCES.values(), ids=SOURCES)
def test_every_kind_becomes_every_kind(
    service: Service, tmp_path: Path, name: str, options: dict[str, Any], to: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source, target = save(tmp_path / name, X, **options), tmp_path / to
    _round(source, target, url=service.url, tile_bytes=TILE_BYTES, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["tiles"] > 2, report["tiles_resumed"], report["bytes"]) == (True, 0, X.nbytes)
    assert report["bytes_per_second"] == pytest.approx(X.nbytes / report["seconds"], rel=0.01)
    assert is_rounded(target, X)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, to])
    if name.endswith(".zarr") and to == "out.zarr":
        for document in ("zarr.json", ".zarray", ".zattrs"):
            if (source / document).exists():
                assert (target / document).read_bytes() == (source / document).read_bytes()


def _round(source: object, target: object, **options: Any) -> None:
    round_array(str(source), str(target), **options)


ARRAYS = {
    "fortran": np.asfortranarray(X),
    "big-endian": X.astype(">f4"),
    "3d": X[:240].reshape(12, 20, 300),
    "integers": patterns("int16", 70_000),
}


@pytest.mark.parametrize("x", ARRAYS.values(), ids=ARRAYS)
def test_layouts(service: Service, tmp_path: Path, x: Any) -> None:
    source = save(tmp_path / "in.npy", x)
    for target in (tmp_path / "out.npy", tmp_path / "out.zarr"):
        _round(source, target, url=service.url, tile_bytes=50_000)
        assert is_rounded(target, x)
    assert np.load(tmp_path / "out.npy").flags.f_contiguous == x.flags.f_contiguous


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_scalars_and_empty_arrays(service: Service, tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 2.5, "<f4")
    _round(save(tmp_path / "in.zarr", x), tmp_path / "out.npy", url=service.url)
    _round(tmp_path / "out.npy", tmp_path / "out.zarr", url=service.url)
    assert is_rounded(tmp_path / "out.zarr", x)


def test_types_that_zarr_has_no_name_for(service: Service, tmp_path: Path) -> None:
    x = patterns("bfloat16", 60_000)
    source, stored = save(tmp_path / "in.npy", x), tmp_path / "out.zarr"
    options = {"url": service.url, "tile_bytes": 50_000}
    _round(source, stored, dtype="bfloat16", **options)
    assert zarr.open_array(stored, mode="r").metadata.zarr_format == 2
    _round(stored, tmp_path / "again.npy", dtype="bfloat16", **options)
    y = np.load(tmp_path / "again.npy").view(ml_dtypes.bfloat16)
    assert np.array_equal(bits(y), expected_bits(x))
    with pytest.raises(typer.BadParameter, match="states its elements as"):
        _round(stored, tmp_path / "no.npy", **options)


def test_an_array_that_is_there_is_lost_only_if_asked_for(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.zarr"
    command = ("round", source, target, "--tile-bytes", TILE_BYTES)
    good(*command, url=service.url)
    other = (*command, "--rounding", "toward_zero")
    bad(1, "exists already: --overwrite replaces it", *other, url=service.url)
    assert is_rounded(target, X)
    good(*other, "--overwrite", url=service.url)
    assert is_rounded(target, X, "toward_zero")


def test_no_group_is_replaced_and_no_array_that_is_read(service: Service, tmp_path: Path) -> None:
    source, folder = save(tmp_path / "in.npy", X), tmp_path / "group.zarr"
    zarr.open_group(folder, mode="w")
    own = save(folder / "a", X, chunks=(64, 100))
    rule = "only a .npy file may be its own OUT"
    for given, target, code, why in (
        (source, folder, 1, "this is a Zarr group"),
        (own, folder, 2, rule),
        (own, own, 2, rule),
    ):
        bad(code, why, "round", given, target, "--overwrite", url=service.url)
    assert np.array_equal(bits(np.asarray(zarr.open_array(own, mode="r")[...])), bits(X))


@pytest.fixture
def memory() -> Iterator[str]:
    files = fsspec.filesystem("memory")
    yield "memory://stores"
    files.rm("/stores", recursive=True)


def test_a_store_at_a_url(service: Service, tmp_path: Path, memory: str) -> None:
    options = {"url": service.url, "tile_bytes": TILE_BYTES}
    _round(save(tmp_path / "in.npy", X), f"{memory}/a.zarr", **options)
    _round(f"{memory}/a.zarr", f"{memory}/group/b", rounding="toward_zero", **options)
    _round(f"{memory}/group/b", tmp_path / "out.npy", **options)
    assert is_rounded(tmp_path / "out.npy", X)
    files = fsspec.filesystem("memory")
    assert not [path for path in files.find("/stores") if "journal" in path]
    with files.open("/stores/raw.npy", "wb") as file:
        np.save(file, X)
    _round(f"{memory}/raw.npy", f"{memory}/c.zarr", **options)
    assert is_rounded("memory://stores/c.zarr", X)


def test_a_store_shows_no_array_before_it_is_whole(
    service: Service, tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = save(tmp_path / "in.npy", X)
    files = fsspec.filesystem("memory")
    full = type(files).pipe_file
    left = 2

    def filling(self: Any, path: str, value: bytes, **options: Any) -> None:
        nonlocal left
        if "/c/" in path:
            if not left:
                raise PermissionError("the store is full")
            left -= 1
        full(self, path, value, **options)

    monkeypatch.setattr("tensor_round_cli.bulk.bulk_run.RECORD_SECONDS", 0.0)
    monkeypatch.setattr(type(files), "pipe_file", filling)
    options = {"url": service.url, "tile_bytes": TILE_BYTES, "connections": 1}
    with pytest.raises(typer.Exit):
        _round(source, f"{memory}/a.zarr", **options)
    with pytest.raises(FileNotFoundError):
        zarr.open_array(f"{memory}/a.zarr", mode="r")
    left = 100
    before = rounded_requests(service)
    _round(source, f"{memory}/a.zarr", **options)
    assert rounded_requests(service) - before == 1
    assert is_rounded("memory://stores/a.zarr", X)
    with pytest.raises(typer.Exit):  # it exists
        _round(source, f"{memory}/a.zarr", **options)


def test_web_servers(service: Service, tmp_path: Path) -> None:
    save(tmp_path / "x.npy", X)
    save(tmp_path / "x.zarr", X, chunks=(64, 100), shards=(128, 100))
    options = {"url": service.url, "tile_bytes": TILE_BYTES}
    with FileServer(tmp_path, ranges=True) as server:
        for number, name in enumerate(("x.npy?signature=1", "x.zarr")):
            _round(f"{server.url}/{name}", tmp_path / f"{number}.npy", **options)
            assert is_rounded(tmp_path / f"{number}.npy", X)
        with pytest.raises(typer.BadParameter, match="not found, or no server answers"):
            _round(f"{server.url}/no.npy", tmp_path / "no.npy", **options)
    with (
        FileServer(tmp_path, ranges=False) as server,
        pytest.raises(typer.BadParameter, match="the server sends no parts of files"),
    ):
        _round(f"{server.url}/x.npy", tmp_path / "no.npy", **options)


WRONG = {
    "a web server as target": ("in.zarr", "https://127.0.0.1/x", "web servers store no arrays"),
    "a remote .npy": ("in.zarr", "memory://x.npy", "is written on this host only"),
    "a pipe": ("in.zarr", "-", "- stands for a .npy file"),
    "a group": (".", "out.npy", "this is a Zarr group: name one of its arrays (bools, in.zarr)"),
    "an unknown scheme": ("nope://x.npy", "out.npy", "Protocol not known: nope"),
    "no driver": ("s3://bucket/x.npy", "out.npy", "Install s3fs"),
    "no array": ("no.zarr", "out.npy", "no such directory with a Zarr array"),
    "another type": ("bools", "out.npy", "elements of type bool, which is not served"),
    "no folder": ("in.zarr", "no/out.zarr", "there is no folder"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "target", "why"), WRONG.values(), ids=WRONG)
def test_wrong_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    zarr.open_group(tmp_path, mode="a")
    save(tmp_path / "in.zarr", X[:3])
    save(tmp_path / "bools", X[:3] > 0)
    with pytest.raises(typer.BadParameter) as caught:
        _round(source, target, url="local:")
    assert why in str(caught.value)


def test_without_the_extra(service: Service, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['zarr'] = sys.modules['fsspec'] = sys.modules['fsspec.core'] = None\n"
        "from tensor_round_cli.app import main\n"
        "main()\n"
    )
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").touch()
    for source in ("x.zarr", "https://127.0.0.1/x.npy"):
        done = subprocess.run(
            [sys.executable, "-c", code, "round", source, "out.npy", "--json"],
            cwd=tmp_path, env={**os.environ, "TENSOR_ROUND_URL": service.url}, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 2
        assert "pip install 'tensor-round[bulk]'" in json.loads(done.stderr)["error"]["detail"]


def test_a_full_disk(service: Service, tmp_path: Path) -> None:
    source = save(tmp_path / "in.npy", np.random.default_rng(0).random((1 << 20,), "f4") * 1e6)
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, 2 << 20):
        command = ("--tile-bytes", 256 << 10)
        bad(1, "No space left", "round", source, disk / "out.npy", *command, url=service.url)
        assert not [*disk.iterdir()]
        errors = bad(1, "No space left", "round", source, disk / "out.zarr", *command,
                     url=service.url)  # fmt: skip
        assert "of 16 tiles are done: the same command continues" in errors
        assert not (disk / "out.zarr" / "zarr.json").exists()


def test_arrays_larger_than_memory_allows(service: Service, tmp_path: Path) -> None:
    """Tiles under way are in memory, and nothing else: the array has 192 MiB.

    Modules that are imported later, threads and tiles take 70 to 120 MiB, by version of Python.
    """
    source = save(tmp_path / "in.zarr", np.zeros((192 << 18,), "<f4"), chunks=(1 << 18,))
    code = (
        "import resource, sys, zarr\n"
        "from tensor_round_cli import app\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "used = next(int(line.split()[1]) << 10 for line in lines if line[:6] == 'VmData')\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, (used + {144 << 20}, resource.RLIM_INFINITY))\n"
        "app.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "round", source, tmp_path / "out.zarr",
         "--tile-bytes", str(1 << 20), "--connections", "2"],
        env={**os.environ, "TENSOR_ROUND_URL": service.url}, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert not zarr.open_array(tmp_path / "out.zarr", mode="r")[:].any()
