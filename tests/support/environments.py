"""Virtual environments with the package's wheel, as its users install it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PIP = [sys.executable, "-m", "pip"]


class Environment:
    """A virtual environment, which has nothing but what is installed into it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        venv.create(home)

    def install(self, *requirements: str) -> None:
        """Install by pip. Of what is installed, few modules are imported: those are compiled."""
        python = str(self.home / "bin" / "python")
        run(*_PIP, "--python", python, "install", "--no-compile", *requirements).check_returncode()

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A program of the environment, to its end."""
        return run(str(self.home / "bin" / program), *arguments)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Code that imports what is installed, whichever folder it runs in (-P)."""
        return self.run("python", "-P", "-c", code)


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    run(*_PIP, "wheel", "--no-deps", "-w", str(folder), str(ROOT)).check_returncode()
    (wheel,) = folder.iterdir()
    return wheel


def locked(folder: Path) -> Path:
    """The versions of ``locks/`` as pip's constraints, which have no hashes: the wheel has none."""
    lines = re.findall(r"^(\S+==.*?) \\$", (ROOT / "locks/ci.txt").read_text(), re.MULTILINE)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lines))
    return constraints


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A command to its end, without this process's own variables for Python and the service."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TENSOR_ROUND"))}
    return subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True)
