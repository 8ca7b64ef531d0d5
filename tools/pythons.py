"""Run a make command on each supported Python that this machine has, each in its own environment.

``python tools/pythons.py [--image] make test ARGS=...`` adds ``PYTHON=`` and ``VENV=`` to the
command. The versions are those that ``pyproject.toml`` names; with ``--image`` only the one that
the Dockerfile names, unless it is this one. Interpreters are looked for in PYTHONS (paths,
separated by spaces), on PATH and among pyenv's. Exits with 1 if a run failed or none was made,
and names the versions that were not found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def supported_versions() -> list[str]:
    """The Pythons that the package's classifiers name, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.search(r":: Python :: (3\.\d+)$", name) for name in project["classifiers"])
    return [match[1] for match in found if match]


def image_version() -> str:
    """The Python of the images."""
    match = re.search(r"^ARG BASE=python:(3\.\d+)-", (ROOT / "Dockerfile").read_text(), re.M)
    assert match, "the Dockerfile names no Python"
    return match[1]


def find(version: str) -> str | None:
    """The path of an interpreter of this version that can make environments."""
    for path in _candidates(version):
        asked = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run([path, "-c", asked], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    return None


def _candidates(version: str) -> Iterator[str]:
    yield from os.environ.get("PYTHONS", "").split()
    if version == OWN:
        yield sys.executable
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    patches = {path.name.rpartition(".")[2]: path for path in pyenv.glob(f"versions/{version}.*")}
    newest = max((patch for patch in patches if patch.isdigit()), key=int, default=None)
    if newest is not None:
        yield str(patches[newest] / "bin" / "python")


def main(arguments: list[str]) -> int:
    """Run the command on each Python; print a line for each."""
    versions = supported_versions()
    if arguments[0] == "--image":
        versions, arguments = [image_version()], arguments[1:]
        if versions == [OWN]:
            print(f"Python {OWN}, the images', is the one that ran everything")
            return 0
    lines, failed = [], False
    for version in versions:
        path = find(version)
        if path is None:
            lines.append(f"Python {version}: not run, it is not on this machine")
            continue
        began = time.monotonic()
        command = [*arguments, f"PYTHON={path}", f"VENV=.venvs/python{version}"]
        code = subprocess.run(command, cwd=ROOT).returncode
        result = "passed" if code == 0 else f"FAILED (exit code {code})"
        lines.append(f"Python {version}: {result} in {time.monotonic() - began:.0f} s ({path})")
        failed |= code != 0
    print(*lines, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
