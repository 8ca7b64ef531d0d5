"""What a run was made on: no figure means anything without it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tensor_round.contract.version import __version__

from . import interpreter

PACKAGES = (
    "numpy",
    "ml_dtypes",
    "llvmlite",
    "fastapi",
    "uvicorn",
    "uvloop",
    "httptools",
)


def describe() -> dict[str, Any]:
    """The machine, the versions and the commit of this run."""
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1
        ),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_build": interpreter.build(),
        "versions": {"tensor-round": __version__}
        | {name: found for name in PACKAGES if (found := installed(name))},
        "commit": commit(),
        "busy_before": round(busy_cores(), 2),
    }


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores had something to do in this time, while this process had not."""
    before = busy_ticks()
    time.sleep(seconds)
    return (busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


def busy_ticks() -> int:
    """Of all cores: every state that /proc/stat counts but idle and waiting."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    user, nice, system, _idle, _waiting, *rest = map(int, first.split()[1:9])
    return user + nice + system + sum(rest)


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The commit, with a plus where the code was changed since."""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "unknown"
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no", "--", "../client", "../service"],
        capture_output=True,
        text=True,
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
