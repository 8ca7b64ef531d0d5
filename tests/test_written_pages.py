"""Pages that programs write are as the programs would write them now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_generated_pages_are_current() -> None:
    # docs/published-suites.md takes seconds: tests/tools/test_suites.py compares a part of it.
    names = ("sdk", "settings", "specifications", ".svg", "rule")
    command = [sys.executable, "-m", "pages", "--check", *names]
    assert subprocess.run(command, cwd=ROOT / "tools").returncode == 0
