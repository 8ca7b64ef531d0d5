"""The workers of a service: which there are, and how soon one that dies is replaced."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from support.http.native_form import ieee754, post
from support.services.server import Service

X = np.array([0.5, 1.5, -2.5], "<f4")


def workers_of(service: Service) -> set[int]:
    """The processes that serve: those that a child of the supervisor has forked."""
    return {worker for child in children_of(service.pid) for worker in children_of(child)}


def children_of(pid: int) -> set[int]:
    """The process ids of a process's children; none if it has ended."""
    try:
        return {*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())}
    except OSError:
        return set()


def is_running(pid: int) -> bool:
    """Whether that process is neither gone nor a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def replaced_after(service: Service) -> float:
    """Seconds until there was another, once one was killed; meanwhile the others answer."""
    before = service.counted("serves")
    os.kill(min(workers_of(service)), signal.SIGKILL)
    began = time.monotonic()
    while service.counted("serves") == before:
        assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()
        time.sleep(0.01)
    return time.monotonic() - began
