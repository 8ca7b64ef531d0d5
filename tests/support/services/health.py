"""The image's health check, as the image runs it."""

from __future__ import annotations

import os
import subprocess
import sys


def healthcheck(**environment: str) -> int:
    """Its exit code, with these settings."""
    settings = {f"TENSOR_ROUND_{name}": value for name, value in environment.items()}
    command = [sys.executable, "-m", "tensor_round_service.process.healthcheck"]
    return subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, timeout=30
    ).returncode
