"""Shared memory as a client makes it, and as the service reads, writes and registers it."""

from __future__ import annotations

import mmap
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensor_round_service.backends import Bytes
from tensor_round_service.oip.infer_json import Region
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import Registration, Registry

OBJECTS = Path("/dev/shm")
PREFIX = "tensor_round_tests_"


@dataclass(frozen=True)
class Segment:
    """An object, and its bytes as the client sees them."""

    key: str
    memory: npt.NDArray[np.uint8]

    @property
    def path(self) -> Path:
        return OBJECTS / self.key

    def shrink(self, nbytes: int) -> None:
        """Cut the object; the client's own view must not be touched beyond it any more."""
        os.truncate(self.path, nbytes)


@contextmanager
def segment(nbytes: int, prefix: str = PREFIX) -> Iterator[Segment]:
    """A fresh object of that many bytes, gone at the end."""
    key = prefix + secrets.token_hex(8)
    path = OBJECTS / key
    with open(path, "xb+") as file:
        file.truncate(nbytes)
        memory = np.frombuffer(mmap.mmap(file.fileno(), nbytes), np.uint8)
    try:
        yield Segment(key, memory)
    finally:
        assert path.exists(), "nobody but its owner may unlink an object"
        path.unlink()


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
    registry = Registry(file.parent)
    for name in names:
        with registry.edit() as regions:
            regions[name] = registration(name)


def die_in_a_change(file: Path) -> None:
    """Never return."""
    with Registry(file.parent).edit() as regions:
        regions["lost"] = registration("lost")
        os.kill(os.getpid(), signal.SIGKILL)
