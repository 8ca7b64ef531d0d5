"""A git repository with the package, and README's lines that install from its URL."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from support.pages import blocks

ROOT = Path(__file__).parents[2]
#: What the package is built from; other folders of the repository only take time.
_BUILT = ("client", "service", "verify", "cli")


def commands(folder: Path) -> list[str]:
    """README's lines, each with the URL of the repository in that folder."""
    (block,) = (b for b in blocks("README.md") if "git+file:" in b.text)
    lines = [line for line in block.text.splitlines() if "git+" in line]
    return [re.sub(r"git\+file://[^']*", f"git+file://{folder}", line) for line in lines]


def make_repository(folder: Path) -> None:
    """Commit the package to a new repository."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in _BUILT:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *arguments], check=True)
