"""Inferences whose tensors lie in registered regions of memory, and their registration."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.http.inference_form import X, tensor
from support.segments import Segment

from .callers import Caller, Outcome

#: Of the regions' objects.
SIZE = 1 << 16
TRIES = 12  # enough that both workers have had their turn


def register(caller: Caller, name: str, key: str, byte_size: int = SIZE, **members: Any) -> Outcome:
    """Register an object of system shared memory."""
    place = {"key": key, "byte_size": byte_size, **members}
    return caller.ask("SystemSharedMemoryRegister", name=name, **place)


def unregister(caller: Caller, name: str = "") -> Outcome:
    """Unregister a region of system shared memory, or all."""
    return caller.ask("SystemSharedMemoryUnregister", **({"name": name} if name else {}))


def registered(caller: Caller, name: str = "") -> Outcome:
    """What is known of a region of system shared memory, or of all."""
    return caller.ask("SystemSharedMemoryStatus", **({"name": name} if name else {}))


def at(nbytes: int, offset: int | None = None, name: str = "r") -> dict[str, Any]:
    place = {} if offset is None else {"shared_memory_offset": offset}
    return {"shared_memory_region": name, "shared_memory_byte_size": nbytes, **place}


def source(nbytes: int, offset: int | None = None, name: str = "r") -> dict[str, Any]:
    return tensor("FP32", [nbytes // 4], parameters=at(nbytes, offset, name))


def into(nbytes: int, offset: int | None = None, name: str = "r") -> list[dict[str, Any]]:
    return [{"name": "Y", "parameters": at(nbytes, offset, name)}]


def put(owned: Segment, x: np.ndarray[Any, Any], offset: int = 0) -> None:
    owned.memory[offset : offset + x.nbytes] = x.view(np.uint8)


def found(owned: Segment, offset: int = 0) -> np.ndarray[Any, Any]:
    return np.frombuffer(owned.memory[offset : offset + X.nbytes].tobytes(), X.dtype)
