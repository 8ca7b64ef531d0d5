"""``GET /metrics``: what was counted, of every worker, and who may read it; no count is lost."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as exposed

from support.http.grpc_client import SERVICE, connected, framed, infer_request
from support.http.inference_form import OF_X, document
from support.http.inference_form import X as FP32
from support.http.native_form import ieee754, npy, post
from support.keys import needing
from support.services.server import Reply, Service, tracebacks, until
from support.services.workers import is_running, workers_of
from support.small_disk import small_disk
from tensor_round.contract.version import __version__

X = np.linspace(-9, 9, 256, dtype="<f4")
ROUND = ieee754("float32", [X.size])


def rounded(service: Service) -> float:
    return service.metric("requests_total", dtype="float32")


#: A route and a status.
Kind: TypeAlias = tuple[str, str]


def requests_and_durations(service: Service) -> tuple[dict[Kind, float], dict[Kind, float]]:
    """How many requests each route and status has, and how many durations, at one time."""
    requests, durations = Counter[Kind](), dict[Kind, float]()
    for family in exposed(service.get("/metrics").content.decode()):
        for sample in family.samples:
            kind = (sample.labels.get("route", ""), sample.labels.get("status", ""))
            if sample.name == "tensor_round_requests_total":
                requests[kind] += sample.value
            elif sample.name == "tensor_round_request_duration_seconds_count":
                durations[kind] = sample.value
    return dict(requests), durations


def test_every_request_has_a_duration_by_route_and_status() -> None:
    """Of every protocol, with and without a tensor, refused and abandoned ones too."""
    seconds = 0.5
    descriptor = ("operator-descriptor", ROUND)
    octets = ("content-type", "application/octet-stream")
    good, bad = (framed(infer_request(document(OF_X), FP32.tobytes(), m)) for m in ("round", "no"))
    with Service("--receive-timeout", str(seconds)) as service:
        for method, path, body in (
            ("POST", "/round", X.tobytes()),
            ("POST", "/round", b""),
            ("GET", "/no/such/path", None),
        ):
            service.request(method, path, body, dict([descriptor]))
        head = f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {ROUND}\r\n"
        for sent, status in (
            (b"GET /slow HTTP/1.1\r\n", b"408"),
            (b"GET /odd HTTP/1.1\r\nno field\r\n\r\n", b"400"),
            (f"{head}Content-Length: {X.nbytes}\r\n\r\n".encode(), b"408"),
        ):
            with service.connect() as plug:
                plug.sendall(sent)
                assert plug.recv(1 << 16).startswith(b"HTTP/1.1 " + status)
        with service.connect() as plug:
            plug.sendall(f"{head}Content-Length: {X.nbytes}\r\n\r\n".encode())
        with connected(service) as client:
            for body in (X.tobytes(), b""):
                stream = client.begin("/round", descriptor, octets)
                client.send(stream, body, ends=True)
                client.finish(stream)
            for sent in (good, bad):
                stream = client.begin("ModelInfer")
                client.send(stream, sent, ends=True)
                client.finish(stream)
            stream = client.begin("ModelStreamInfer")
            client.send(stream, good + bad + good, ends=True)
            assert client.finish(stream).status == 0
            client.begin("ModelInfer")
        infer, messages = f"/{SERVICE}/ModelInfer", f"/{SERVICE}/ModelStreamInfer"
        until(lambda: service.metric("requests_total", route=infer, status="499") == 1)
        requests, durations = requests_and_durations(service)
        slow = service.metric("request_duration_seconds_sum", route="/round", status="408")
        beyond = service.metric("request_duration_seconds_bucket", status="408", le="0.25")
    assert durations == requests
    expected = {
        ("/round", "200"): 2,
        ("/round", "400"): 2,
        ("/round", "408"): 1,
        ("/round", "499"): 1,
        ("other", "400"): 1,
        ("other", "404"): 1,
        ("other", "408"): 1,
        (infer, "200"): 1,
        (infer, "404"): 1,
        (infer, "499"): 1,
        (messages, "200"): 2,
        (messages, "404"): 1,
    }
    assert expected.items() <= requests.items()
    assert (slow >= 0.9 * seconds, beyond) == (True, 0)


def test_requests_bytes_and_phases_are_counted() -> None:
    model = "/v2/models/onnx_round/infer"
    tensor = {"name": "X", "shape": [2], "datatype": "FP32", "data": [0.5, 1.5]}
    with Service() as service:
        for _ in range(3):
            assert post(service, ROUND, X.tobytes()).status == 200
        document = {"descriptor": json.loads(ROUND), "data": X.tolist()}
        fields = {"Content-Type": "application/json"}
        assert service.request("POST", "/round", json.dumps(document), fields).status == 200
        fields = {"Content-Type": "application/x-npy"}
        assert service.request("POST", "/round?operator=onnx:22", npy(X), fields).status == 200
        assert service.request("POST", "/round", b"", {}).status == 400
        assert service.get("/no/such/path").status == 404
        assert service.request("DELETE", "/operators").status == 405
        assert service.request("POST", model, json.dumps({"inputs": [tensor]}), {}).status == 200
        assert service.request("HEAD", "/livez").status == 200
        assert service.get("/v2/models/onnx_round").status == 200
        served = {"route": "/round", "dialect": "ieee754", "dtype": "float32", "backend": "numpy"}
        assert service.metric("requests_total", **served, status="200", code="") == 4
        of_file = {**served, "dialect": "onnx"}
        assert service.metric("requests_total", **of_file, status="200", code="") == 1
        refused = {"route": "/round", "status": "400", "code": "missing_descriptor"}
        assert service.metric("requests_total", **refused) == 1
        assert service.metric("requests_total", route="other", status="404", code="not_found") == 1
        refused = {"route": "/operators", "status": "405", "code": "method_not_allowed"}
        assert service.metric("requests_total", **refused) == 1
        assert service.metric("requests_total", route="/readyz") >= 1
        assert service.metric("requests_total", route=model, dialect="onnx", dtype="float32") == 1
        assert service.metric("requests_total", route="/v2") == 1
        assert service.metric("received_bytes_total", route="/round") >= 3 * X.nbytes
        assert service.metric("sent_bytes_total", route="/round") >= 3 * X.nbytes
        assert service.metric("sent_bytes_total", route="/livez") == 0
        for phase in ("receive", "queue", "execute", "send"):
            assert service.metric("phase_seconds_count", phase=phase) == 6
            assert service.metric("phase_seconds_bucket", phase=phase, le="+Inf") == 6
        assert 0 < service.metric("phase_seconds_sum", phase="execute") < 10
        assert service.metric("bytes_in_flight") == 0
        assert service.metric("bytes_in_flight_limit") > 0
        assert service.metric("workers") == service.metric("ready") == 1
        assert service.metric("workers_configured") == service.metric("worker_starts_total") == 1
        assert service.metric("worker_replacements_total") == 0
        assert service.metric("connections_refused_total") == 0
        assert service.metric("connections", state="working") == 1
        assert service.metric("build_info", version=__version__, backend="numpy") == 1
        reply = service.request(
            "GET", "/metrics", None, {"Accept": "application/openmetrics-text; version=1.0.0"}
        )
    assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics(reply.content.decode())}
    assert {"tensor_round_requests", "tensor_round_phase_seconds"} <= names


def series(service: Service) -> set[bytes]:
    """The metrics with their labels."""
    return {line.rpartition(b" ")[0] for line in service.get("/metrics").content.splitlines()}


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
        before = series(service)
        for number in range(1, 251):
            ask(number)
        assert service.metric("requests_total", route="other") == 2 * 251
        assert series(service) == before


def test_counts_of_workers_are_summed_up_also_of_those_that_have_ended() -> None:
    """Right after their requests the two workers are stopped: they leave what they counted."""
    with Service("--workers", "2") as two:
        for _ in range(20):
            assert post(two, ROUND, X.tobytes()).status == 200
        for worker in workers_of(two):
            os.kill(worker, signal.SIGTERM)
        until(lambda: two.metric("worker_starts_total") == 4)
        assert two.metric("worker_replacements_total") == 2
        until(lambda: two.metric("workers") == 2)
        assert rounded(two) == 20
        assert two.metric("workers_configured") == two.metric("ready") == 2


def of_process(service: Service) -> dict[str, float]:
    """The metrics of the workers' processes."""
    return {
        sample.name.removeprefix("process_"): sample.value
        for family in exposed(service.get("/metrics").content.decode())
        for sample in family.samples
        if sample.name.startswith("process_")
    }


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "workers"])
def test_processes_of_workers_are_summed_up(count: int) -> None:
    """CPU time does not fall when a worker is replaced; the start is the oldest worker's."""
    with Service("--workers", str(count)) as service:
        until(lambda: service.metric("workers") == count)
        workers = [*workers_of(service)] if count > 1 else [service.pid]
        limits = sum(resource.prlimit(worker, resource.RLIMIT_NOFILE)[0] for worker in workers)
        with contextlib.ExitStack() as stack:
            before = of_process(service)
            for _ in range(20):
                stack.enter_context(contextlib.closing(service.connect()))
            until(lambda: of_process(service)["open_fds"] >= before["open_fds"] + 20)
        assert before["max_fds"] == limits
        assert abs(before["start_time_seconds"] - time.time()) < 300
        statuses = [Path(f"/proc/{worker}/statm").read_text().split() for worker in workers]
        page = resource.getpagesize()
        for name, column in (("virtual", 0), ("resident", 1)):
            now = page * sum(int(status[column]) for status in statuses)
            assert before[f"{name}_memory_bytes"] == pytest.approx(now, rel=0.3)
        assert 0.1 < before["cpu_seconds_total"] < 300
        if count > 1:
            os.kill(workers[0], signal.SIGKILL)
            until(lambda: service.metric("worker_starts_total") == count + 1)
            assert of_process(service)["cpu_seconds_total"] > before["cpu_seconds_total"]


def test_keys_protect_metrics_but_not_on_a_port_of_their_own(tmp_path: Path) -> None:
    keys = needing(tmp_path, "secret")
    with Service(*keys) as service:
        assert service.get("/metrics").status == 401
        assert service.request("GET", "/metrics", None, {"X-API-Key": "secret"}).status == 200
    with Service(*keys, "--metrics-port", "0") as service:
        moved = service.request("GET", "/metrics", None, {"X-API-Key": "secret"})
        assert (moved.status, "METRICS_PORT" in moved.json()["detail"]) == (404, True)
        reply = service.beside.get("/metrics")
        assert reply.status == 200
        assert b'status="401"' not in reply.content
        assert service.beside.get("/livez").json() == {"status": "alive"}
        assert service.beside.get("/readyz").json()["status"] == "ready"
        for other in ("/operators", "/v2/health/live", "/"):
            assert service.beside.get(other).status == 404
        refused = post(service.beside, ROUND, X.tobytes())
        assert (refused.status, refused.json()["code"]) == (404, "not_found")


def round_some(service: Service, count: int) -> None:
    """Rounds on one connection; its worker has counted all when it reads the last request."""
    with contextlib.closing(service.connection()) as connection:
        for _ in range(count):
            connection.request("POST", "/round", X.tobytes(), {"Operator-Descriptor": ROUND})
            assert Reply.read(connection).status == 200
        connection.request("GET", "/livez")
        assert Reply.read(connection).status == 200


def kill_all(service: Service) -> None:
    started = service.counted("serves")
    for worker in workers_of(service):
        os.kill(worker, signal.SIGKILL)
    until(lambda: service.counted("serves") == started + 2)


@pytest.mark.slow
def test_disk_that_is_full_for_a_while_changes_no_count(tmp_path: Path) -> None:
    with small_disk(tmp_path, 4 << 20) as disk:
        if not disk.is_mounted:
            pytest.skip("no disk may be mounted here, and RLIMIT_FSIZE limits one process")
        environment = {"TMPDIR": str(disk.folder)}
        with Service("--workers", "2", environment=environment) as service:
            with disk.full():
                for count in (1, 2):
                    for _ in range(6):
                        round_some(service, 3)
                    for _ in range(4):
                        assert rounded(service) == 18 * count
                    time.sleep(1.2)  # longer than it takes to state gauges
                kill_all(service)
                assert rounded(service) == 36
                until(lambda: service.metric("workers") == 2)
            round_some(service, 6)
            for _ in range(8):
                assert rounded(service) == 42
                assert service.metric("workers") == 2
        assert not tracebacks(service.log)


@pytest.mark.slow
def test_folder_of_a_killed_supervisor_is_removed_by_the_next_start(tmp_path: Path) -> None:
    """But not those of running services, nor others' folders."""
    (tmp_path / "tensor-round-of-mine").mkdir()

    def started() -> Service:
        return Service("--workers", "2", environment={"TMPDIR": str(tmp_path)})

    def folders() -> set[Path]:
        return set(tmp_path.glob("tensor-round-workers-*"))

    with started():
        (running,) = folders()
        with started() as killed:
            (abandoned,) = folders() - {running}
            workers = workers_of(killed)
            killed.process.kill()
            assert killed.process.wait(20) < 0
            until(lambda: not any(map(is_running, workers)))
        assert folders() == {running, abandoned}
        with started():
            assert abandoned not in folders()
            assert len(folders()) == 2
            assert running in folders()
        assert folders() == {running}
    assert [path.name for path in tmp_path.iterdir()] == ["tensor-round-of-mine"]
