"""Bytes of a registered region, through the service's own reading and writing."""

from __future__ import annotations

import numpy as np

from tensor_round_service.backends import Bytes
from tensor_round_service.oip.codec import Region
from tensor_round_service.oip.posix_memory import PosixSharedMemory

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
