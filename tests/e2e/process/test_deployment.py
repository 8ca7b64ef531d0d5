"""What a service tells of itself is what holds: limits in effect, keys, TLS, workers."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Service
from support.services.tls import TlsService

MIB = 1 << 20


def told(service: Service) -> str:
    """The terms in the line that says where it runs."""
    (line,) = [line for line in service.log if "running on" in line]
    return re.split(" with ", line.strip(), maxsplit=1)[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_limits_are_the_ones_in_effect(workers: int) -> None:
    budget = f"{4 * workers}MiB"
    with Service("--max-bytes-in-flight", budget, "--workers", str(workers)) as service:
        shown = service.get("/operators").json()
        largest = shown["limits"]["max_tensor_bytes"]
        assert shown["limits"]["max_bytes_in_flight"] == 4 * workers * MIB
        assert largest == 4 * MIB - MIB // 4  # a sixteenth is for small requests
        payload = np.full(largest // 4 + 1, 1.5, "<f4").tobytes()
        assert post(service, ieee754("float32", [largest // 4]), payload[:-4]).status == 200
        assert post(service, ieee754("float32", [largest // 4 + 1]), payload).status == 413
        count = "1 worker" if workers == 1 else f"{workers} workers"
        sizes = f"tensors of up to 3.8 MiB, {4 * workers} MiB in flight"
        assert told(service) == f"{count}, {sizes}, no API keys, no TLS"
        assert shown["service"] == {
            "version": version("tensor-round"),
            "workers": workers,
            "api_keys": False,
            "tls": False,
        }
        assert shown["execution"] == {"backend": "numpy", "devices": ["CPU"]}


def test_a_smaller_setting_is_the_limit() -> None:
    options = ("--max-bytes-in-flight", "1GiB", "--max-tensor-bytes", "64MiB")
    with Service(*options) as service:
        assert service.get("/operators").json()["limits"]["max_tensor_bytes"] == 64 * MIB
        assert told(service).startswith("1 worker, tensors of up to 64 MiB, 1 GiB in flight")


def test_keys_and_tls_are_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(hashlib.sha256(b"secret").hexdigest() + "\n")
    with TlsService("--api-keys-file", str(keys)) as service:
        assert told(service).endswith(", API keys, TLS")
        shown = service.request("GET", "/operators", headers={"X-API-Key": "secret"}).json()
        assert shown["service"] | {"workers": 1, "api_keys": True, "tls": True} == shown["service"]
