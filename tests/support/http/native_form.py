"""Requests in the octet-stream form, for tests that speak HTTP themselves."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from support.services.server import Reply, Service


def ieee754(dtype: str, shape: list[int], rounding: str = "ties_to_even", **more: Any) -> str:
    """An ``ieee754`` descriptor as a header's value."""
    layout = {"dtype": dtype, "shape": shape, **more}
    return json.dumps({"dialect": "ieee754", "rounding": rounding, "input": layout})


def npy(x: npt.NDArray[Any]) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def sha256_field(data: bytes) -> str:
    """The value of Content-Digest for these bytes."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def post(service: Service, descriptor: str, payload: bytes | memoryview, **headers: str) -> Reply:
    """``POST /round`` with this descriptor; underscores in header names stand for dashes."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.request(
        "POST",
        "/round",
        payload,
        {
            "Content-Type": "application/octet-stream",
            "Operator-Descriptor": descriptor,
            **fields,
        },
    )
