"""README's line by which pip installs from git's URL of the repository."""

from __future__ import annotations

import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from support.environments import commands, make_repository


def test_the_readme_s_requirement_is_built_from_git(tmp_path: Path) -> None:
    make_repository(tmp_path / "clone")
    (requirement,) = (
        words[2]
        for words in map(shlex.split, commands(tmp_path / "clone"))
        if words[:2] == ["pip", "install"]
    )
    assert requirement.startswith("tensor-round[all] @ git+file:///")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path / "wheels")]
    done = subprocess.run([*pip, requirement], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        assert "Provides-Extra: all\n" in archive.read(metadata).decode()
