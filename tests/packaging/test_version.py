"""The version of a tree, and of sdist and wheel: bare at the release's tag, else with a commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.environments import make_repository
from tensor_round.contract.version import RELEASE, of_tree

TAG = f"v{RELEASE}"
#: What is done in a repository with one commit, and whether its version is then bare.
HISTORIES: dict[str, tuple[list[list[str]], bool]] = {
    "branch": ([], False),
    "packed branch": ([["pack-refs", "--all"]], False),
    "detached": ([["checkout", "-q", "--detach"]], False),
    "tag": ([["tag", TAG]], True),
    "packed tag": ([["tag", TAG], ["pack-refs", "--all"]], True),
    "annotated tag": ([["tag", "-a", "-m", "x", TAG]], True),
    "packed annotated tag": ([["tag", "-a", "-m", "x", TAG], ["pack-refs", "--all"]], True),
    "another tag": ([["tag", f"{TAG}1"], ["pack-refs", "--all"]], False),
    "after the tag": ([["tag", TAG], ["commit", "-q", "--allow-empty", "-m", "Next"]], False),
}
#: Builds an sdist of the tree, and a wheel of the unpacked sdist.
BUILD = """
import os, sys, tarfile
from hatchling.build import build_sdist, build_wheel
sdist = build_sdist(sys.argv[1])
tarfile.open(os.path.join(sys.argv[1], sdist)).extractall(sys.argv[1], filter="data")
os.chdir(os.path.join(sys.argv[1], sdist.removesuffix(".tar.gz")))
print(sdist, build_wheel(sys.argv[1]))
"""


def git(folder: Path, *arguments: str) -> str:
    """Run git without the settings of this machine."""
    own = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    person = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *person, *arguments]
    return subprocess.run(command, env=own, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("history", "bare"), HISTORIES.values(), ids=HISTORIES)
def test_a_clone_and_its_worktrees_tell_their_commits(
    history: list[list[str]], bare: bool, tmp_path: Path
) -> None:
    clone, worktree = tmp_path / "clone", tmp_path / "worktree"
    git(tmp_path, "init", "-q", str(clone))
    for command in (["commit", "-q", "--allow-empty", "-m", "First"], *history):
        git(clone, *command)
    git(clone, "worktree", "add", "-q", "-b", "other", str(worktree))
    commit = git(clone, "rev-parse", "HEAD")
    expected = RELEASE if bare else f"{RELEASE}+g{commit[:8]}"
    assert [of_tree(clone), of_tree(worktree)] == [expected, expected]


def test_without_a_commit_it_says_so(tmp_path: Path) -> None:
    assert of_tree(tmp_path) == f"{RELEASE}+unknown"
    git(tmp_path, "init", "-q")
    assert of_tree(tmp_path) == f"{RELEASE}+unknown"


@pytest.mark.parametrize("released", [False, True])
def test_sdist_and_wheel_have_the_version_of_their_tree(
    released: bool, backend: dict[str, str], tmp_path: Path
) -> None:
    make_repository(tmp_path / "clone")
    if released:
        git(tmp_path / "clone", "tag", TAG)
    version = of_tree(tmp_path / "clone")
    assert (version == RELEASE) is released
    build = [sys.executable, "-c", BUILD, str(tmp_path)]
    done = subprocess.run(
        build, cwd=tmp_path / "clone", env=backend, check=True, capture_output=True, text=True
    )
    names = f"tensor_round-{version}.tar.gz tensor_round-{version}-py3-none-any.whl"
    assert done.stdout.splitlines()[-1] == names
