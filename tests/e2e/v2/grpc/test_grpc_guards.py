"""Keys, limits, log, metrics and the end of the service, for calls of gRPC."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from support.http.grpc_client import Client, connected, framed, infer_request, made, tensor_of
from support.http.inference_form import EVEN, OF_X, X, document
from support.keys import needing
from support.services.server import Service, until
from support.services.tls import CA, CLIENT, TlsService, caller_context
from tensor_round_service.grpc.health import NAME as HEALTH

REQUEST = infer_request(document(OF_X), X.tobytes())
INFER = "/inference.GRPCInferenceService/ModelInfer"


def test_keys(tmp_path: Path) -> None:
    """Of methods that only this transport has; see the guards of both."""
    with (
        Service(*needing(tmp_path, "open sesame")) as service,
        connected(service) as client,
    ):
        assert client.call("NoMethod", b"").status == 16
        assert client.call(f"/{HEALTH}/Check", b"").status == 0


def test_ids_and_traces(service: Service, client: Client) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    fields = ("x-request-id", "an-id-of-the-test"), ("traceparent", trace)
    answer = client.call("ModelInfer", REQUEST, *fields)
    assert answer.fields["x-request-id"] == "an-id-of-the-test"
    line = service.logged("an-id-of-the-test")
    assert f"POST {INFER} status=200" in line
    received, sent = len(framed(REQUEST)), len(answer.content)
    assert f"received_bytes={received} sent_bytes={sent} duration_ms=" in line
    assert f"traceparent={trace}" in line
    refused = client.call("ModelMetadata", made("ModelMetadataRequest", name="none"))
    line = service.logged(refused.fields["x-request-id"])
    assert "status=404 code=not_found" in line


def test_calls_bytes_and_phases_are_counted(service: Service, client: Client) -> None:
    def counts() -> list[float]:
        return [
            service.metric("received_bytes_total", route=INFER),
            service.metric("sent_bytes_total", route=INFER),
            service.metric("phase_seconds_count"),
            service.metric("requests_total", route=INFER, status="200", dialect="ieee754"),
            service.metric("requests_total", route=INFER, status="400"),
            service.metric("requests_total", route="other", status="501"),
        ]

    before = counts()
    answer = client.call("ModelInfer", REQUEST)
    between = counts()
    assert np.subtract(between, before).tolist() == [X.nbytes, len(answer.content), 4, 1, 0, 0]
    assert client.call("ModelInfer", b"\xff").status == 3
    assert client.call("/no.Service/Method", b"").status == 12
    received = len(framed(b"\xff"))
    assert np.subtract(counts(), between).tolist() == [received, 0, 0, 0, 1, 1]


def test_unfinished_calls_end_at_the_drain_timeout() -> None:
    with (
        Service("--drain-timeout", "0.5") as service,
        connected(service) as client,
    ):
        calls = [client.begin(name) for name in ("ModelInfer", "ModelStreamInfer")]
        for stream in calls:
            client.send(stream, framed(REQUEST)[:-1])
        client.call("ServerLive", b"")
        service.process.send_signal(signal.SIGTERM)
        for stream in calls:
            answer = client.finish(stream)
            assert answer.status == 14
            assert "stopped" in answer.text
        assert service.process.wait(60) == 0


def test_over_tls_it_is_chosen_by_alpn_alone() -> None:
    caller, both = caller_context(CLIENT), caller_context(CLIENT)
    caller.set_alpn_protocols(["h2"])
    both.set_alpn_protocols(["h2", "http/1.1"])
    options = ("--ssl-ca-certs", str(CA))
    with TlsService(*options, caller=both) as service:
        assert service.get("/v2/health/live").json() == {"live": True}, "by HTTP/1.1"
        service.caller = caller
        with connected(service) as client:
            answer = client.call("ModelInfer", REQUEST)
            assert tensor_of(answer).tobytes() == EVEN.tobytes()


def test_it_can_be_turned_off() -> None:
    with Service("--grpc", "false") as service, service.connect() as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400 ")


def test_calls_under_way_end_after_sigterm() -> None:
    with Service("--drain-delay", "0.5") as service, connected(service) as client:
        watch = client.begin(f"/{HEALTH}/Watch")
        client.send(watch, framed(b""), ends=True)
        client.wait(watch, 1)
        infer = client.begin("ModelInfer")
        content = framed(REQUEST)
        client.send(infer, content[:-1])
        service.process.send_signal(signal.SIGTERM)
        statuses = [made("grpc.health.v1.HealthCheckResponse") for _ in range(2)]
        for each, told in zip(statuses, client.wait(watch, 2), strict=True):
            each.ParseFromString(told)
        assert [json.dumps(each.status) for each in statuses] == ["1", "2"]
        assert client.finish(watch).status == 0
        client.send(infer, content[-1:], ends=True)
        assert tensor_of(client.finish(infer)).tobytes() == EVEN.tobytes()
        assert service.process.wait(60) == 0


@pytest.mark.parametrize("is_reset", [True, False])
def test_call_that_its_caller_leaves_counts_as_499(service: Service, is_reset: bool) -> None:
    def left() -> float:
        return service.metric("requests_total", route=INFER, status="499")

    before = left()
    with connected(service) as client:
        stream = client.begin("ModelInfer")
        client.send(stream, framed(REQUEST)[:-1])
        client.call("ServerLive", b"")
        if is_reset:
            client.state.reset_stream(stream)
            client.flush()
            client.call("ServerLive", b"")
    until(lambda: left() == before + 1)
