"""The build backend, which is not among the locked packages of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python that finds the build backend."""
    home = tmp_path_factory.mktemp("backend")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(home)]
    subprocess.run([*pip, "hatchling>=1.27,<2"], check=True)
    return {**os.environ, "PYTHONPATH": str(home)}
