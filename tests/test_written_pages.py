"""Pages that programs write are as the programs would write them now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "tool",
    [
        "sdk_reference.py",
        "settings_page.py",
        "specifications_page.py",
        "staircase.py",
        "parts.py",
        "prometheus_rule.py",
    ],
)
def test_a_page_is_current(tool: str) -> None:
    made = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"])
    assert made.returncode == 0, "run make docs"
