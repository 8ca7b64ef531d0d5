"""Versions: the supported Pythons, and what locks/ pins, are those that pyproject.toml asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pythons

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSIONS = pythons.supported_versions()
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in ROOT.glob(".github/*/*.yml")}


def test_the_package_and_the_tools_require_the_oldest() -> None:
    oldest = VERSIONS[0]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    # Types are checked for the Python that checks them: stubs of newer libraries need theirs.
    assert "python_version" not in PROJECT["tool"]["mypy"]
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")


def test_versions_have_no_gap() -> None:
    minors = [int(version.removeprefix("3.")) for version in VERSIONS]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert sys.version_info[1] in minors


def test_ci_runs_the_suite_on_each_version() -> None:
    assert WORKFLOWS["ci.yml"]["jobs"]["check"]["strategy"]["matrix"]["python"] == VERSIONS


def test_workflows_use_the_images_python_elsewhere() -> None:
    named = {
        step["with"]["python-version"]
        for workflow in WORKFLOWS.values()
        for job in workflow.get("jobs", {}).values()
        for step in job.get("steps", ())
        if "python-version" in step.get("with", {})
    }
    assert named == {"${{ matrix.python }}", pythons.image_version()}


def test_ci_covers_the_images_python() -> None:
    assert pythons.image_version() in VERSIONS
    script = (ROOT / ".ci/run").read_text().splitlines()
    assert "make test-pythons IMAGE=1 LOCKED=1" in script


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/api-policy.md"])
def test_pages_name_all_versions(page: str) -> None:
    named = re.findall(r"3\.\d+ to 3\.\d+", (ROOT / page).read_text())
    assert set(named) == {f"{VERSIONS[0]} to {VERSIONS[-1]}"}


def test_the_readme_s_badges_are_true() -> None:
    badges = re.findall(r"`(.+?)`", (ROOT / "README.md").read_text().splitlines()[2])
    project = PROJECT["project"]
    assert badges[:2] == [project["license"], f"Python {VERSIONS[0]} to {VERSIONS[-1]}"]
    assert badges[2:] == ["typed", "roundings proved for every operand"]  # `make types prove`
    assert "Typing :: Typed" in project["classifiers"]


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1)])
def test_each_version_is_run_or_named(command: str, code: int) -> None:
    done = run(command)
    assert done.returncode == code
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"Python {v}" for v in VERSIONS]
    result = "passed" if command == "true" else "FAILED (exit code 1)"
    own = next(line for line in lines if line.startswith(f"Python {pythons.OWN}:"))
    assert f": {result} in " in own
    assert all(result in line or "it is not on this machine" in line for line in lines)


def test_the_images_python_is_run_unless_it_is_this_one() -> None:
    done, version = run("--image", "true"), pythons.image_version()
    assert done.returncode == 0
    assert done.stdout.startswith(f"Python {version}")
    assert ("the images'" in done.stdout) is (version == pythons.OWN)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/pythons.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


OWN: list[str] = PROJECT["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
#: Without the groups that one includes: each group is locked.
GROUPS: dict[str, list[str]] = {
    name: [asked for asked in group if isinstance(asked, str)]
    for name, group in PROJECT["dependency-groups"].items()
}

#: What each file must have.
ASKED = {
    "build": [*GROUPS["build"], *PROJECT["build-system"]["requires"]],
    "ci": [
        *OWN,
        *EXTRAS["service"],
        *EXTRAS["cli"],
        *EXTRAS["compiled"],
        *GROUPS["test-client"],
        *GROUPS["test-observability"],
        *GROUPS["test"],
        *GROUPS["lint"],
    ],
    "site": GROUPS["site"],
    # An extra that is others is locked under their names. No image has the command line.
    **{extra: [*OWN, *asked] for extra, asked in EXTRAS.items() if extra not in ("cli", "all")},
}


def pins(name: str) -> dict[tuple[str, str], tuple[str, int]]:
    """By package and marker: its version, and how many hashes it may have."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    found = {}
    for entry in re.split(r"^(?=\S)", text, flags=re.M):
        if entry.strip() and not entry.startswith("#"):
            pinned = Requirement(entry.partition(" \\")[0])
            (version,) = pinned.specifier
            assert version.operator == "=="
            key = canonicalize_name(pinned.name), str(pinned.marker or "")
            found[key] = version.version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry))
    return found


@pytest.mark.parametrize("name", ASKED)
def test_a_lock_has_every_package_asked_for(name: str) -> None:
    locked = pins(name)
    assert all(hashes for _, hashes in locked.values())
    for text in ASKED[name]:
        asked = Requirement(text)
        versions = [v for (n, _), (v, _) in locked.items() if n == canonicalize_name(asked.name)]
        assert versions, f"make lock: {text}"
        assert all(version in asked.specifier for version in versions), f"make lock: {text}"


def test_every_file_is_of_this_table() -> None:
    assert {path.stem for path in (ROOT / "locks").iterdir()} == set(ASKED)


def test_images_have_the_tested_versions() -> None:
    tested = pins("ci")
    for name in ASKED:
        for key, (version, _) in pins(name).items():
            assert tested.get(key, (version, 0))[0] == version, key


def test_every_requirement_has_an_upper_bound() -> None:
    """But for pip, which any machine has in a version of its own."""
    for text in {text for asked in ASKED.values() for text in asked}:
        asked = Requirement(text)
        bounded = any(s.operator in ("<", "<=", "==", "~=") for s in asked.specifier)
        assert bounded or asked.name == "pip", text
