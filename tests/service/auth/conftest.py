"""A file with the keys of two callers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.keys import A, B


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text(f"{A} alice\n{B} bob\n")
    return file
