"""The README's lines that install from git's URL of the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from support.pages import blocks

ROOT = Path(__file__).parents[2]
#: What pip builds from; other folders of the repository only take time.
BUILT = ("client", "service", "verify", "cli")


def test_the_readme_s_requirement_is_built_from_git(tmp_path: Path) -> None:
    (block,) = (b for b in blocks("README.md") if "git+file:" in b.text)
    wanted = set(re.findall(r"'(tensor-round\[all\] @ git\+file://)/path/of/[^']*'", block.text))
    assert wanted == {"tensor-round[all] @ git+file://"}
    assert block.text.count(*wanted) == 2

    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in BUILT:
        shutil.copytree(ROOT / name, clone / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    git = ["git", "-C", str(clone), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *arguments], check=True)

    requirement = f"{wanted.pop()}{clone}"
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path / "wheels")]
    done = subprocess.run([*pip, requirement], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        assert "Provides-Extra: all\n" in archive.read(metadata).decode()
