"""What docs/security.md shows works, and the tests it names are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.pages import ROOT, examples
from tensor_round_service.app import create_app
from tensor_round_service.auth.api_keys import KeyRing
from tensor_round_service.settings import Settings

PAGE = "docs/security.md"
TEXT = (ROOT / PAGE).read_text()


def test_the_recipe_makes_a_key_that_counts(tmp_path: Path) -> None:
    (recipe,) = [example for example in examples(PAGE, "sh") if ">> keys.txt" in example]
    made = subprocess.run(
        ["bash", "-eu"], input=recipe, capture_output=True, text=True, cwd=tmp_path, check=True
    )
    found = KeyRing(tmp_path / "keys.txt").find(made.stdout.strip().encode())
    assert found is not None
    assert found.label == "reports"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\S*test_\w+\.py)`", TEXT))))
def test_the_tests_it_names_are_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_it_names_the_open_paths() -> None:
    (line,) = re.findall(r"- Open without a key: (.*)\.", TEXT)
    table = create_app(Settings(backend="numpy")).table
    files = table.open_paths - table.counted_paths
    assert set(re.findall(r"`([^`]+)`", line)) == {*table.open_paths - files, "/page/"}
    assert all(path.startswith("/page/") for path in files)
