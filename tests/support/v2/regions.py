"""Inferences whose tensors lie in registered regions of memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from support.http.inference_form import (
    X,
    tensor,
)
from support.segments import Segment
from support.services.server import Reply, Service

#: Of the regions' objects.
SIZE = 1 << 16
TRIES = 12  # enough that both workers have had their turn


def post(service: Service, path: str, **members: Any) -> Reply:
    return service.request("POST", "/v2/systemsharedmemory" + path, json.dumps(members).encode())


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
