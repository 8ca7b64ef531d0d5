"""``make help`` lists every recipe once, by what people want."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPES = re.findall(r"^([a-z][a-z-]*):.*##", (ROOT / "Makefile").read_text(), re.M)


def test_help_lists_every_recipe_once() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert Counter(listed) == Counter(RECIPES)
    assert len(listed) <= 38


def test_both_tiers_run_before_a_change_lands() -> None:
    text = (ROOT / "Makefile").read_text()
    check = text[text.index("\ncheck:") :].partition("\n\n")[0]
    assert "test test-slow" in check
    assert "make check LOCKED=1" in (ROOT / ".ci/run").read_text()
