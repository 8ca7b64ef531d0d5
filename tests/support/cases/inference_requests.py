"""Inference requests as documents: the least there is, and its three sources of numbers."""

from __future__ import annotations

import json
from typing import Any

from tensor_round_service.oip import codec

X: dict[str, Any] = {"name": "X", "shape": [2], "datatype": "FP32"}
INLINE: dict[str, Any] = {**X, "data": [0.5, 1.5]}
BINARY: dict[str, Any] = {**X, "parameters": {"binary_data_size": 8}}
REGION: dict[str, Any] = {
    **X,
    "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8},
}


def read(document: Any) -> codec.Request:
    return codec.read_request(json.dumps(document).encode())


def request(tensor: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"inputs": [tensor], **members}
