"""The service with a device: what it says of it, and what becomes of it when it is lost."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest

import tensor_round as tr
from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.native_form import Answers, ieee754, message, post, tensor
from support.services.server import Reply
from support.services.variants import DeviceService

needs_compiler = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

LARGE = np.linspace(-1e4, 1e4, 3 << 18, dtype="<f4")
SMALL = LARGE[:100]


def rounded(service: DeviceService, x: np.ndarray, dtype: str = "float32") -> Reply:
    reply = post(service, ieee754(dtype, [x.size]), x.tobytes())
    if reply.status == 200:
        assert reply.content == (np.rint(x) if x.dtype.kind == "f" else x).tobytes()
    return reply


@pytest.mark.slow
@needs_compiler
def test_responses_name_the_backend_that_rounded_them() -> None:
    with DeviceService("--backend", "auto", "--gpu-min-bytes", "1MiB") as service:
        assert rounded(service, LARGE).headers["Execution-Backend"] == "cupy"
        assert rounded(service, SMALL).headers["Execution-Backend"] == "numpy"
        whole = LARGE.view("<i4")
        assert rounded(service, whole, "int32").headers["Execution-Backend"] == "numpy"
        tensor = {"name": "X", "shape": [3], "datatype": "FP32", "data": [0.5, 1.5, 2.5]}
        request = json.dumps({"inputs": [tensor]}).encode()
        reply = service.request("POST", "/v2/models/round/infer", request)
        assert (reply.status, reply.headers["Execution-Backend"]) == (200, "numpy")
        report = service.get("/conformance").json()
        assert report["conforms"]
        assert set(report["backends"]) == {"cupy", "numpy"}
        assert report["backends"]["cupy"] == report["backends"]["numpy"]
        report = service.get("/conformance?operator=cast&dtype=int8&to=int4").json()
        assert report["conforms"]
        assert report["casts"]["cupy"] == report["casts"]["numpy"]
        assert service.get("/readyz").json()["backend"] == "cupy"


@pytest.mark.slow
@needs_compiler
def test_a_device_quantizes_with_a_scale_for_each_channel() -> None:
    rows, scales = LARGE.reshape(-1, 3), np.array([0.5, 77, -80], "<f4")
    operator = tr.OnnxQuantizeLinear("int8")
    descriptor = operator.descriptor("float32", rows.shape, ("float32", (3,)), None).to_json()
    with DeviceService("--backend", "auto", "--gpu-min-bytes", "1MiB") as service:
        reply = post(service, descriptor.decode(), rows.tobytes() + scales.tobytes())
        assert reply.headers["Execution-Backend"] == "cupy"
        right = np.clip(np.rint(rows / scales), -128, 127).astype(np.int8)
        assert reply.content == right.tobytes()


def events(service: DeviceService) -> list[float]:
    kinds = ("out_of_memory", "failed", "lost", "fallback")
    return [service.metric("device_events_total", event=kind) for kind in kinds]


@needs_compiler
def test_full_or_lost_device_is_replaced_by_numpy_and_counted() -> None:
    """Without its device the service answers, drains and exits."""
    options = ("--backend", "auto", "--gpu-min-bytes", "0", "--drain-delay", "2")
    with DeviceService(*options) as service:
        device = {"device": "host device"}
        assert service.metric("device_memory_total_bytes", **device) == 1 << 30
        assert 0 < service.metric("device_memory_used_bytes", **device) < 1 << 30
        assert rounded(service, LARGE).headers["Execution-Backend"] == "cupy"
        assert events(service) == [0] * 4
        service.fill()
        assert rounded(service, LARGE).headers["Execution-Backend"] == "numpy"
        assert events(service) == [1, 0, 0, 1]
        service.fault()
        assert rounded(service, LARGE).headers["Execution-Backend"] == "numpy"
        assert events(service)[2:] == [1, 2]
        assert service.metric("ready") == 0
        assert b"\ntensor_round_device_memory_used_bytes" not in service.get("/metrics").content
        assert service.get("/readyz").status == 503
        assert rounded(service, SMALL).headers["Execution-Backend"] == "numpy"
        assert service.get("/livez").status == 200
        assert service.process.wait(20) == 1
    assert any("device lost: host device" in line for line in service.log)


@needs_compiler
def test_full_device_without_a_substitute_is_503_and_a_lost_one_has_numpy() -> None:
    with DeviceService("--backend", "cupy", "--gpu-min-bytes", "0") as service:
        service.fill()
        reply = rounded(service, LARGE)
        assert (reply.status, reply.json()["code"]) == (503, "device_out_of_memory")
        assert reply.headers["Retry-After"] == "1"
        service.fault()
        assert rounded(service, LARGE).headers["Execution-Backend"] == "numpy"
        assert service.process.wait(20) == 1


@needs_compiler
def test_pipelined_requests_wait_for_the_device() -> None:
    x = tensor(2048)
    device = DeviceService("--backend", "cupy", "--gpu-min-bytes", "0")
    with device as service, contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(x))
        status, headers, content = answers.next()
        assert (status, headers["Execution-Backend"]) == (200, "cupy")
        assert content == np.rint(x).tobytes()
        plug.sendall(message(x) * 20)
        answers.expect(*[x] * 20)
