"""A container as its callers reach it: every route, bodies of every size, and its end."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import numpy as np
import pytest
from tritonclient import http as triton

import tensor_round as tr
from support.containers import Container, engine, started

#: Some are served in one turn of the event loop, others wait: for a body, for a thread, for room.
COUNTS = [1, 4096, (64 << 10) // 4 + 1, (1 << 20) // 4, (16 << 20) // 4]


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as reply:
        content: bytes = reply.read()
    return content


def halves(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(count, dtype=np.float32) / 2 - 1000


def test_every_route_without_a_parameter_answers(published: Container) -> None:
    paths = json.loads(get(published.url() + "/openapi.json"))["paths"]
    plain = [path for path, methods in paths.items() if "get" in methods and "{" not in path]
    assert {"/readyz", "/operators", "/v2/health/ready"} <= set(plain)
    for path in ("/", "/docs", *plain):
        assert get(published.url() + path), path


@pytest.mark.parametrize("count", COUNTS)
def test_clients_get_tensors_of_every_size(published: Container, count: int) -> None:
    given = halves(count)
    with tr.Client(published.url()) as client:
        assert client.round(given).tobytes() == np.rint(given).tobytes()
    other = triton.InferenceServerClient(published.url().removeprefix("http://"))
    source = triton.InferInput("X", [count], "FP32")
    source.set_data_from_numpy(given)
    found = other.infer("round", [source]).as_numpy("Y")
    other.close()
    assert found.tobytes() == np.rint(given).tobytes()


def test_it_drains_and_ends_when_it_is_stopped(image: str) -> None:
    with started(image, published=True, BACKEND="auto") as container:
        container.wait()
        with tr.Client(container.url()) as client:  # whose connection stays open
            assert client.round(halves(1 << 18)).size == 1 << 18
            asked = time.monotonic()
            done = engine("stop", "-t", "40", container.name)
            assert done.returncode == 0, done.stderr
            assert time.monotonic() < asked + 10
        assert container.state()["ExitCode"] == 0
        assert "Traceback" not in container.log()
