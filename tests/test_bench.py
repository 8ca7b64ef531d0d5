"""What the bench takes apart still fits together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

MEASURE = """
import json
from bench import anatomy
anatomy.LARGE, anatomy.REQUESTS, anatomy.BLOCKS = 1 << 20, 100, 4
print(json.dumps(anatomy.measure()))
"""


def test_the_layers_of_a_request() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len({row["layer"] for row in rows if row["bytes"] == 1024}) == 5
    assert all(row["seconds"] > 0 for row in rows)
