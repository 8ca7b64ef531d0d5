"""Virtual environments with the wheel, and a repository for README's lines with its URL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from support.pages import ROOT, blocks

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


#: What the package is built from; other folders of the repository only take time.
BUILT = ("client", "service", "verify", "cli")


def commands(folder: Path) -> list[str]:
    """README's lines, each with the URL of the repository in that folder."""
    (block,) = (b for b in blocks("README.md") if "git+" in b.text)
    lines = [line for line in block.text.splitlines() if "git+" in line]
    return [re.sub(r"git\+https://[^']*", f"git+file://{folder}", line) for line in lines]


def copy_sources(folder: Path, *, compiled: bool = False) -> None:
    """Copy what the package is built from, on request with the bytecode that there is."""
    ignored = shutil.ignore_patterns(*[] if compiled else ["__pycache__"], "node_modules")
    for name in BUILT:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)


def make_repository(folder: Path) -> None:
    """Commit the package to a new repository."""
    copy_sources(folder)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *arguments], check=True)
