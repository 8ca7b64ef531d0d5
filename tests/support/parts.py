"""Bytes of a registered region, and what other processes do to a list of regions."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from tensor_round_service.backends import Bytes
from tensor_round_service.oip.codec import Region
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import Registration, Registry

SIZE = 4096


def contents(memory: PosixSharedMemory, name: str, nbytes: int, offset: int = 0) -> bytes:
    found = np.empty(nbytes, np.uint8)
    with memory.part(Region(name, nbytes, offset), nbytes) as part:
        part.read(0, found)
    return found.tobytes()


def fill(memory: PosixSharedMemory, name: str, value: int, nbytes: int, offset: int = 0) -> None:
    with memory.part(Region(name, nbytes, offset), nbytes) as part:
        part.write(0, full(nbytes, value))


def full(nbytes: int, value: int) -> Bytes:
    return np.full(nbytes, value, np.uint8)


def registration(name: str) -> Registration:
    return Registration(name, "key é\n", 2**70, 3, (1, 2), "token-of-" + name)


def add(file: Path, names: list[str]) -> None:
    """Register these, one change each."""
    registry = Registry(file)
    for name in names:
        with registry.edit() as regions:
            regions[name] = registration(name)


def die_in_a_change(file: Path) -> None:
    """Never return."""
    with Registry(file).edit() as regions:
        regions["lost"] = registration("lost")
        os.kill(os.getpid(), signal.SIGKILL)
