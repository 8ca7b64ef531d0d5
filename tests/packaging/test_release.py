"""One version, a changelog that tools can read, and README's line that installs from git."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.environments import BUILT, commands, make_repository
from tensor_round.contract.version import RELEASE, of_tree

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path", ["web/package.json", "service/tensor_round_service/pages/web/client/package.json"]
)
def test_the_packages_have_one_version(path: str) -> None:
    assert json.loads((ROOT / path).read_text())["version"] == RELEASE


def test_one_source_has_the_version() -> None:
    having = {
        path.name
        for folder in BUILT
        for path in (ROOT / folder).rglob("*.py")
        if f'"{RELEASE}"' in path.read_text()
    }
    assert having == {"version.py"}


def test_the_changelog_is_in_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.*)$", text, re.M)
    newest = re.fullmatch(r"\[(\S+)\] - (?:unreleased|\d{4}-\d\d-\d\d)", releases[0])
    assert newest is not None
    assert newest[1] == RELEASE
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in releases[1:])
    for release in re.split(r"^## ", text, flags=re.M)[1:]:
        parts = re.findall(r"^### (.*)$", release, re.M)
        order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
        assert parts == [part for part in order if part in parts]


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
        lines = archive.read(metadata).decode().splitlines()
    assert {"Provides-Extra: all", f"Version: {of_tree(tmp_path / 'clone')}"} <= {*lines}
