"""Which CUDA `make serve` and `make gpu-check` install for, by what `nvidia-smi` shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: As drivers 580, 550 and 470 show it, and 610, which has another name for it.
NEWEST = """\
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
|   0  NVIDIA B200                    On  |   00000000:63:00.0 Off |                    0 |
"""
SHOWN = """\
| NVIDIA-SMI {driver}              Driver Version: {driver}      CUDA Version: {cuda}     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
"""
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)


@pytest.mark.parametrize(
    ("output", "status", "extra"),
    [
        (NEWEST, 0, "cuda13"),
        (SHOWN.format(driver="580.95.05", cuda="13.0"), 0, "cuda13"),
        (SHOWN.format(driver="550.135", cuda="12.4"), 0, "cuda12"),
        (SHOWN.format(driver="470.256.02", cuda="11.4"), 0, None),
        ("No devices were found\n", 6, None),
        (NO_DRIVER, 9, None),
        (None, 0, None),
    ],
    ids=["610", "580", "550", "470", "no device", "no driver", "no nvidia-smi"],
)
def test_serve_installs_the_version_that_the_driver_runs(
    tmp_path: Path, output: str | None, status: int, extra: str | None
) -> None:
    folder, shown_there = tmp_path / "bin", tmp_path / "shown.txt"
    folder.mkdir()
    if output is not None:
        shown_there.write_text(output)
        # There is no cat on that PATH.
        echo = f"while read -r line; do echo \"$line\"; done < '{shown_there}'"
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{echo}\nexit {status}\n")
        (folder / "nvidia-smi").chmod(0o755)
    make = shutil.which("make")
    assert make is not None
    shown = subprocess.run(
        [make, "--dry-run", "serve", f"PYTHON={sys.executable}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    installed = dict.fromkeys(re.findall(r"pip install -q -e '\.\[(.*?)\]'", shown))
    assert [*installed] == (["service", f"service,{extra}"] if extra else ["service"])
    assert shown.rstrip().endswith("tensor-round-service --host 127.0.0.1 --port 8000")
