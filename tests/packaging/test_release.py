"""One version, and a changelog that tools can read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(
    "path", ["web/package.json", "service/tensor_round_service/pages/web/client/package.json"]
)
def test_the_packages_have_one_version(path: str) -> None:
    assert json.loads((ROOT / path).read_text())["version"] == VERSION


def test_the_python_sources_ask_for_the_version() -> None:
    for folder in ("client", "service", "verify", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not re.search(rf"version.*[\"']{re.escape(VERSION)}[\"']", path.read_text()), (
                path
            )


def test_the_changelog_is_in_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.*)$", text, re.M)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in releases[1:])
    for release in re.split(r"^## ", text, flags=re.M)[1:]:
        parts = re.findall(r"^### (.*)$", release, re.M)
        order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
        assert parts == [part for part in order if part in parts]
