"""Requests in the octet-stream form, as bytes too, for tests that speak HTTP themselves."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import io
import json
import socket
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


def tensor(nbytes: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.random.default_rng(seed).standard_normal(nbytes // 4) * 100).astype(np.float32)


def message(x: np.ndarray, version: str = "1.1", more: str = "") -> bytes:
    head = (
        f"POST /round HTTP/{version}\r\nHost: x\r\nContent-Length: {x.nbytes}\r\n{more}"
        f"Operator-Descriptor: {ieee754('float32', list(x.shape))}\r\n\r\n"
    )
    return head.encode() + x.tobytes()


def response_to(service: Service, *sent: bytes) -> bytes:
    """All that comes, until the service ends the connection, after these are sent."""
    with contextlib.closing(service.connect(timeout=20)) as plug:
        with contextlib.suppress(ConnectionError):
            for each in sent:
                plug.sendall(each)
        with plug.makefile("rb") as file:
            return file.read()


class Answers:
    """The answers on one connection, one after another."""

    def __init__(self, plug: socket.socket) -> None:
        self.file = plug.makefile("rb")

    def next(self) -> tuple[int, http.client.HTTPMessage, bytes]:
        status = int(self.file.readline().split()[1])
        headers = http.client.parse_headers(self.file)
        return status, headers, self.file.read(int(headers["Content-Length"]))

    def expect(self, *tensors: np.ndarray) -> None:
        for x in tensors:
            status, _, content = self.next()
            assert status == 200, content
            assert content == np.rint(x).tobytes()

    def at_end(self) -> bool:
        return self.file.read(1) == b""
