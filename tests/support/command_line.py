"""The command line as a process: its exit code, and what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def command(
    *arguments: object, url: str | None = None, given: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TENSOR_ROUND")}
    if url is not None:
        environment["TENSOR_ROUND_URL"] = url
    return subprocess.run(
        [sys.executable, "-m", "tensor_round", *map(str, arguments)],
        input=given,
        capture_output=True,
        env={**kept, "COLUMNS": "200", "NO_COLOR": "1", **environment},
        timeout=60,
    )


def good(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = command(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done


def bad(code: int, why: str, *arguments: object, **options: Any) -> str:
    done = command(*arguments, **options)
    errors = done.stderr.decode()
    assert done.returncode == code, (done.returncode, errors)
    assert why in " ".join(errors.split()), errors
    assert "Traceback" not in errors
    return errors
