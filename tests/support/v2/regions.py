"""Inferences whose tensors lie in registered regions of memory, and their registration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from support.http.inference_form import Outcome, X, tensor
from support.segments import Segment

from .callers import Caller

#: Of the regions' objects.
SIZE = 1 << 16
TRIES = 12  # enough that both workers have had their turn


@dataclass(frozen=True)
class Memory:
    """A kind of shared memory, ``System`` or ``Cuda``, and the calls for it."""

    kind: str

    def register(
        self, caller: Caller, name: str, key: str, byte_size: int = SIZE, **members: Any
    ) -> Outcome:
        """Register an object; on the device of the tests a handle has its key."""
        handle = {"raw_handle": key.encode().ljust(64, b"\0"), "device_id": 0}
        place = {"key": key} if self.kind == "System" else handle
        place = {**place, "byte_size": byte_size, **members}
        return caller.ask(f"{self.kind}SharedMemoryRegister", name=name, **place)

    def unregister(self, caller: Caller, name: str = "") -> Outcome:
        """Unregister a region, or all."""
        return self._ask(caller, "Unregister", name)

    def registered(self, caller: Caller, name: str = "") -> Outcome:
        """What is known of a region, or of all."""
        return self._ask(caller, "Status", name)

    def _ask(self, caller: Caller, verb: str, name: str) -> Outcome:
        return caller.ask(f"{self.kind}SharedMemory{verb}", **({"name": name} if name else {}))


SYSTEM, CUDA = Memory("System"), Memory("Cuda")
register, unregister, registered = SYSTEM.register, SYSTEM.unregister, SYSTEM.registered


def at(nbytes: int, offset: int | None = None, name: str = "r") -> dict[str, Any]:
    place = {} if offset is None else {"shared_memory_offset": offset}
    return {"shared_memory_region": name, "shared_memory_byte_size": nbytes, **place}


def source(nbytes: int, offset: int | None = None, name: str = "r") -> dict[str, Any]:
    return tensor("FP32", [nbytes // 4], parameters=at(nbytes, offset, name))


def into(nbytes: int, offset: int | None = None, name: str = "r") -> list[dict[str, Any]]:
    return [{"name": "Y", "parameters": at(nbytes, offset, name)}]


def put(owned: Segment, x: np.ndarray[Any, Any], offset: int = 0) -> None:
    owned.memory[offset : offset + x.nbytes] = x.view(np.uint8)


def found(owned: Segment, offset: int = 0, nbytes: int = X.nbytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(owned.memory[offset : offset + nbytes].tobytes(), X.dtype)
