"""The client, ``local:``, verify and the command line where POSIX's modules are missing.

What Windows lacks is taken away from processes of this machine. CI runs the tests that need no
service on Windows itself, too (.github/workflows/ci.yml).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.pages import ROOT
from support.services.server import Service

pytestmark = [pytest.mark.slow, pytest.mark.not_behind("unix", reason="it has no Unix sockets")]

PROGRAM = """
import asyncio
import sys

import numpy as np
import tensor_round as tr
from tensor_round import conformance


def main() -> None:
    x = np.array([-2.5, -0.3, 0.5, 1.5], np.float32)
    large = np.full((3 << 20) + 1, 2.5, np.float32)
    for url in sys.argv[1:]:
        with tr.Client(url, tile_bytes=1 << 20) as client:
            assert client.ready()
            assert client.round(x).tolist() == [-2, -0.0, 0, 2]
            assert (client.round(large, "ties_to_away") == 3).all()
        asyncio.run(use_async(url, x))
    try:
        tr.Client("unix:///run/tensor-round.sock")
    except tr.InvalidArgument as error:
        assert "no Unix sockets" in str(error), error
    report = conformance.verify(np.trunc, dtypes=["float16"], roundings=["toward_zero"], nans="any")
    assert report.right, str(report)


async def use_async(url: str, x: np.ndarray) -> None:
    async with tr.AsyncClient(url) as client:
        assert (await client.round(x, "toward_negative")).tolist() == [-3, -1, 0, 1]
"""


def without_posix(
    module: str, *arguments: object, folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "support.without_posix", module, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(folder)])},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_clients_round_without_posix(service: Service, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = without_posix("program", "local:", service.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_rounded_without_posix(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 1001, dtype=np.float32)
    np.save(tmp_path / "in.npy", x)
    arguments = ["round", "in.npy", "out.npy", "--operator", "ties_to_away", "--url", "local:"]
    done = without_posix("tensor_round_cli.app", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npy").tobytes() == np.trunc(x + np.copysign(0.5, x)).tobytes()


def test_program_is_verified_without_posix(tmp_path: Path) -> None:
    kernel = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    (tmp_path / "same.py").write_text(kernel)
    runtime = f"cmd:{sys.executable} same.py"
    options = ["--dtype", "float16", "--json"]
    done = without_posix("tensor_round_cli.app", "verify", runtime, *options, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdicts"][0]["wrong"] > 0


def test_hanging_program_is_ended_without_posix(tmp_path: Path) -> None:
    (tmp_path / "hang.py").write_text("import time; time.sleep(600)")
    runtime = f"cmd:{sys.executable} hang.py"
    options = ["--dtype", "float16", "--timeout", "1"]
    done = without_posix("tensor_round_cli.app", "verify", runtime, *options, folder=tmp_path)
    assert done.returncode == 2
    assert "did not finish within 1 s" in done.stderr


def test_doctor_examines_without_posix(service: Service, tmp_path: Path) -> None:
    done = without_posix("tensor_round_cli.app", "doctor", service.url, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
