"""locks/: what .ci and the images install is what pyproject.toml asks for, each by its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
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
        *(*OWN, *EXTRAS["service"], *EXTRAS["cli"], *EXTRAS["compiled"]),
        *(*GROUPS["test-client"], *GROUPS["test-observability"], *GROUPS["test"], *GROUPS["lint"]),
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
