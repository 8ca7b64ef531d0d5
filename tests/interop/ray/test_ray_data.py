"""Ray Data and dask with the engine in their processes, as docs/deploy.md advises."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.pages import EXAMPLES


@pytest.mark.parametrize(
    ("example", "printed"),
    [("ray_data.py", "10000 True\n"), ("dask_blocks.py", "(4, 1) True\n")],
)
def test_an_engine(example: str, printed: str) -> None:
    program = EXAMPLES / example
    # On a cluster of its own: those of the other tests are small. Ray Data sets options that it has
    # deprecated itself, which would be errors here.
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
        **{"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"},
    }
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
