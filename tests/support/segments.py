"""Shared memory as a client makes it: a POSIX object, and the client's own view of it."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
