"""The workers of a service: which there are, and how soon one that dies is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import numpy as np

from support.http.native_form import ieee754, post
from support.services.server import Service

X = np.array([0.5, 1.5, -2.5], "<f4")


def workers_of(service: Service) -> set[int]:
    """Children of the supervisor that serve; multiprocessing has one of its own beside them."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if parent == service.pid and b"spawn_main" in process.joinpath("cmdline").read_bytes():
                found.add(int(process.name))
    return found


def serving(service: Service) -> int:
    """How many workers have begun to serve so far."""
    return sum("serves" in line for line in service.log)


def replaced_after(service: Service) -> float:
    """Seconds until there was another, once one was killed; meanwhile the others answer."""
    before = serving(service)
    os.kill(min(workers_of(service)), signal.SIGKILL)
    began = time.monotonic()
    while serving(service) == before:
        assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()
        time.sleep(0.01)
    return time.monotonic() - began
