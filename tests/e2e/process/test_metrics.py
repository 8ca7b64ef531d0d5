"""``GET /metrics``: what was counted, of every worker, and who may read it."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.native_form import ieee754, post
from support.services.server import Reply, Service
from support.services.variants import DeviceService
from support.services.workers import serving, workers_of

X = np.linspace(-9, 9, 256, dtype="<f4")
ROUND = ieee754("float32", [X.size])

#: Samples by name and labels.
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(service: Service) -> Samples:
    reply = service.get("/metrics")
    assert reply.status == 200
    return samples(reply.content.decode())


def value(found: Samples, name: str, **labels: str) -> float:
    """The sum of a metric over the samples that have these labels."""
    wanted = labels.items()
    return sum(
        number
        for (full_name, have), number in found.items()
        if full_name == f"tensor_round_{name}" and wanted <= dict(have).items()
    )


def test_requests_bytes_and_phases() -> None:
    with Service() as service:
        for _ in range(3):
            assert post(service, ROUND, X.tobytes()).status == 200
        document = {"descriptor": json.loads(ROUND), "data": X.tolist()}
        fields = {"Content-Type": "application/json"}
        assert service.request("POST", "/round", json.dumps(document), fields).status == 200
        assert service.request("POST", "/round", b"", {}).status == 400
        assert service.get("/no/such/path").status == 404
        assert service.request("DELETE", "/operators").status == 405
        found = scraped(service)
    rounded = {"route": "/round", "dialect": "ieee754", "dtype": "float32", "backend": "numpy"}
    assert value(found, "requests_total", **rounded, status="200", code="") == 4
    refused = {"route": "/round", "status": "400", "code": "missing_descriptor"}
    assert value(found, "requests_total", **refused) == 1
    assert value(found, "requests_total", route="other", status="404", code="not_found") == 1
    refused = {"route": "/operators", "status": "405", "code": "method_not_allowed"}
    assert value(found, "requests_total", **refused) == 1
    assert value(found, "requests_total", route="/readyz") >= 1
    assert value(found, "received_bytes_total", route="/round") >= 3 * X.nbytes
    assert value(found, "sent_bytes_total", route="/round") >= 3 * X.nbytes
    for phase in ("receive", "queue", "execute", "send"):
        assert value(found, "phase_seconds_count", phase=phase) == 4
        assert value(found, "phase_seconds_bucket", phase=phase, le="+Inf") == 4
    assert 0 < value(found, "phase_seconds_sum", phase="execute") < 10
    assert value(found, "bytes_in_flight") == 0
    assert value(found, "bytes_in_flight_limit") > 0
    assert value(found, "workers") == value(found, "ready") == 1
    assert value(found, "workers_configured") == value(found, "worker_starts_total") == 1
    assert value(found, "connections", state="working") == 1
    assert value(found, "build_info", backend="numpy") == 1


def test_inferences_are_counted_by_their_model() -> None:
    path = "/v2/models/onnx_round/infer"
    tensor = {"name": "X", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    with Service() as service:
        body = json.dumps({"inputs": [tensor]})
        assert service.request("POST", path, body, {}).status == 200
        assert service.get("/v2/models/onnx_round").status == 200
        found = scraped(service)
    assert value(found, "requests_total", route=path, dialect="onnx", dtype="float32") == 1
    assert value(found, "requests_total", route="/v2") == 1


def test_labels_have_few_values_for_any_request() -> None:
    """A thousand odd paths, methods and fields make no series that the first ones did not make."""
    fields = {"Operator-Descriptor": '{"dialect": "of-mine"}', "X-Request-ID": "odd"}
    with Service() as service, contextlib.closing(service.connection()) as connection:

        def ask(number: int) -> None:
            for method, path in (
                ("GET", f"/odd/{number}"),
                ("GET", f"/round?{number}"),
                ("PROPFIND", f"/v2/models/{number}/infer"),
                ("POST", f"/round{number}"),
            ):
                connection.request(method, path, b"", fields)
                Reply.read(connection)

        ask(0)
        service.get("/metrics")
        before = scraped(service).keys()
        for number in range(1, 251):
            ask(number)
        found = scraped(service)
    assert value(found, "requests_total", route="other") == 2 * 251
    assert found.keys() == before


def test_workers_are_summed_up_those_that_have_exited_too() -> None:
    """Right after their requests the two workers are stopped: they leave what they counted."""
    with Service("--workers", "2") as service:
        deadline = time.monotonic() + 30
        while serving(service) < 2:
            assert time.monotonic() < deadline, service.log
            time.sleep(0.05)
        for _ in range(20):
            assert post(service, ROUND, X.tobytes()).status == 200
        for worker in workers_of(service):
            os.kill(worker, signal.SIGTERM)
        while True:
            found = scraped(service)
            if value(found, "worker_starts_total") == 4 and value(found, "workers") == 2:
                break
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
    assert value(found, "requests_total", dtype="float32") == 20
    assert value(found, "workers_configured") == value(found, "ready") == 2


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_devices_have_memory_and_events() -> None:
    large = np.linspace(-9, 9, 1 << 18, dtype="<f4")
    descriptor = ieee754("float32", [large.size])
    options = ("--backend", "auto", "--gpu-min-bytes", "0", "--drain-delay", "2")
    with DeviceService(*options) as service:
        found = scraped(service)
        assert value(found, "device_memory_total_bytes", device="host device") == 1 << 30
        assert 0 < value(found, "device_memory_used_bytes", device="host device") < 1 << 30
        events = ("out_of_memory", "failed", "lost", "fallback")
        assert [value(found, "device_events_total", event=event) for event in events] == [0] * 4
        service.fill()
        post(service, descriptor, large.tobytes())
        found = scraped(service)
        assert [value(found, "device_events_total", event=event) for event in events] == [
            1,
            0,
            0,
            1,
        ]
        service.fault()
        post(service, descriptor, large.tobytes())
        found = scraped(service)
        assert value(found, "device_events_total", event="lost") == 1
        assert value(found, "device_events_total", event="fallback") == 2
        assert value(found, "ready") == 0
        assert "tensor_round_device_memory_used_bytes" not in {name for name, _ in found}
        assert service.process.wait(20) == 1


def test_openmetrics_is_written_for_who_prefers_it() -> None:
    with Service() as service:
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        reply = service.request("GET", "/metrics", None, accept)
        assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
        names = {family.name for family in openmetrics(reply.content.decode())}
    assert {"tensor_round_requests", "tensor_round_phase_seconds"} <= names


def test_keys_shut_it_but_on_a_port_of_its_own(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(hashlib.sha256(b"secret").hexdigest())
    with Service("--api-keys-file", str(keys)) as service:
        assert service.get("/metrics").status == 401
        assert service.request("GET", "/metrics", None, {"X-API-Key": "secret"}).status == 200
    with Service("--api-keys-file", str(keys), "--metrics-port", "0") as service:
        moved = service.request("GET", "/metrics", None, {"X-API-Key": "secret"})
        assert (moved.status, "METRICS_PORT" in moved.json()["detail"]) == (404, True)
        (told,) = [line for line in service.log if "running on" in line]
        (port,) = re.findall(r"\(metrics on port (\d+)\)", told)
        own = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        own.request("GET", "/metrics")
        reply = own.getresponse()
        found = samples(reply.read().decode())
        assert reply.status == 200
        assert value(found, "requests_total", route="/metrics", status="401") == 0
        own.request("POST", "/round", X.tobytes(), {"Operator-Descriptor": ROUND})
        refused = own.getresponse()
        assert (refused.status, json.loads(refused.read())["code"]) == (404, "not_found")
        own.close()
