"""``tensor-round round`` as people call it: files, pipes, exit codes, messages."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.cases.array_cases import bits, expected_bits, patterns
from support.command_line import bad, good, limited
from support.http.proxy import Fault, Proxy
from support.services.server import Service

FILES = {
    "fortran": lambda x: np.asfortranarray(x),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_a_file_becomes_a_file_alike(service: Service, tmp_path: Path, make: Any) -> None:
    x = make(patterns("float32", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--rounding", "ties_to_away",
         url=service.url)  # fmt: skip
    y = np.load(tmp_path / "out.npy")
    assert (y.dtype, y.shape, y.flags.f_contiguous) == (x.dtype, x.shape, x.flags.f_contiguous)
    assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


def test_the_file_may_be_its_own_target(service: Service, tmp_path: Path) -> None:
    x = patterns("float64", 50)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "link.npy").symlink_to("x.npy")
    own = ("round", tmp_path / "x.npy", tmp_path / "link.npy")
    good(*own, url=service.url)
    assert (tmp_path / "link.npy").is_symlink()
    assert np.array_equal(bits(np.load(tmp_path / "x.npy")), expected_bits(x))


def test_pipes(service: Service, tmp_path: Path) -> None:
    x = np.asfortranarray(patterns("float16", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    done = good("round", "-", "-", "--json", "--tile-bytes", 50, url=service.url,
                given=(tmp_path / "in.npy").read_bytes())  # fmt: skip
    (tmp_path / "out.npy").write_bytes(done.stdout)
    assert np.array_equal(bits(np.load(tmp_path / "out.npy")), expected_bits(x))
    assert json.loads(done.stderr)["output"] == "-"
    done = good("round", tmp_path / "in.npy", "-", "--tile-bytes", 50, url=service.url)
    assert done.stdout == (tmp_path / "out.npy").read_bytes()


def test_a_report_as_json(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 3), "<f2"))
    done = good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--json", "--digest",
                "--operator", "directml:2", url=service.url)  # fmt: skip
    report = json.loads(done.stdout)
    assert (report["dtype"], report["shape"], report["bytes"]) == ("float16", [2, 3], 12)
    assert (report["operator"], report["rounding"]) == ("directml:2", "ties_to_away")
    assert report["seconds"] >= 0


def test_a_file_larger_than_memory_allows(service: Service, tmp_path: Path) -> None:
    """Mapped in and out: private memory may not hold the tensor even once."""
    x = np.lib.format.open_memmap(tmp_path / "in.npy", "w+", "<f4", (80 << 18,))
    x[::1001] = 0.5
    url = {"TENSOR_ROUND_URL": service.url}
    done = limited(64 << 20, "round", "in.npy", "out.npy", folder=tmp_path, **url)
    assert done.returncode == 0, done.stderr
    assert not np.load(tmp_path / "out.npy", mmap_mode="r").any()


def test_half_a_file_is_never_left(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", patterns("float32", 1000))
    (tmp_path / "out.npy").write_bytes(b"what was there")
    with Proxy(service.address, lambda _: Fault(cut_down=2000)) as proxy:
        bad(1, "closed the", "round", tmp_path / "in.npy", tmp_path / "out.npy", url=proxy.url)
    assert (tmp_path / "out.npy").read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_full_disk_is_a_message(service: Service, tmp_path: Path, form: tuple[str, ...]) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    done = subprocess.run(
        [sys.executable, "-m", "tensor_round", "round", "in.npy", "out.npy", *form],
        cwd=tmp_path,
        env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        timeout=60,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
    if form:
        assert json.loads(done.stderr)["error"]["kind"] == "OSError"
    else:
        assert done.stderr.startswith(b"tensor-round: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]
