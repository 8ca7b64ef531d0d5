"""`docker compose up` in a clone, and what README has a reader send to it, on port 8000."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensor_round as tr
from support.containers import engine
from support.pages import ROOT, URL, Reader, blocks

COMPOSE = os.environ["COMPOSE"].split()
IMAGE = "tensor-round:cpu"


def run(clone: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tensor-round"
    run(ROOT, "git", "clone", "--quiet", str(ROOT), str(folder))
    image = engine("image", "inspect", "--format={{.Id}}", IMAGE).stdout.strip()
    run(folder, *COMPOSE, "up", "--build", "--detach")
    yield folder
    run(folder, *COMPOSE, "down")
    with tr.Client(URL) as client:
        assert not client.ready()
    engine("tag", image, IMAGE)  # which the other tests are about: a clone has what is committed


@pytest.mark.timeout(300)
def test_readme_s_lines_are_answered(clone: Path) -> None:
    end = time.monotonic() + 30
    with tr.Client(URL) as client:
        while not client.ready():
            assert time.monotonic() < end, run(clone, *COMPOSE, "logs")
            time.sleep(0.2)
    page = [block for block in blocks("README.md") if block.language in ("sh", "python")]
    sent = [block for block in page if not (block.needs or block.serves or ".venv" in block.text)]
    assert {block.language for block in sent} == {"sh", "python"}
    assert sum("curl" in block.text for block in sent) >= 2
    with Reader(clone, Path(sys.executable).parent) as reader:
        for block in sent:
            reader.read(block, URL)
