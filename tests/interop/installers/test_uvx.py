"""README's line by which uvx runs the service from git's URL of the repository."""

from __future__ import annotations

import os
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path

from support.environments import commands, make_repository


def test_the_readme_s_line_runs_the_service_with_all_extras(tmp_path: Path) -> None:
    make_repository(tmp_path / "clone")
    (line,) = (line for line in commands(tmp_path / "clone") if line.startswith("uvx "))
    words = shlex.split(line)
    assert words[-1] == "tensor-round-service"
    uvx = [os.environ["UVX"], *words[1:-1]]

    def said(*command: str) -> str:
        done = subprocess.run(
            [*uvx, *command], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout.strip()

    assert said("tensor-round-service", "--version").split()[-1] == version("tensor-round")
    assert said("tensor-round", "--version") == version("tensor-round")
    extras = "import fastapi, llvmlite, opentelemetry, typer; print('all')"
    assert said("python", "-c", extras) == "all"
