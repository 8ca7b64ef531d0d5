"""What only gRPC has: messages, streams, deadlines, health, reflection; its log and its end."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from h2.settings import SettingCodes

from support.http.grpc_client import (
    FILES,
    Client,
    connected,
    framed,
    infer_request,
    made,
    output_bytes,
    tensor_of,
)
from support.http.inference_form import EVEN, OF_X, X, binary, document, tensor
from support.keys import needing
from support.segments import PREFIX
from support.services.server import Service, until
from support.services.tls import CA, CLIENT, TlsService, caller_context
from tensor_round_service.grpc.health import NAME as HEALTH


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--access-log", "true", "--shared-memory-prefix", PREFIX)
    with Service(*options, "--max-bytes-in-flight", "16MiB") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with connected(service) as made:
        yield made


GOOD = document(OF_X)


@pytest.mark.parametrize("cut", [1, 7, 1 << 14])
def test_a_raw_tensor_in_any_cuts(client: Client, cut: int) -> None:
    answer = client.call("ModelInfer", infer_request(GOOD | {"id": "7"}, X.tobytes()), cut=cut)
    assert tensor_of(answer).tobytes() == EVEN.tobytes()
    told = answer.read("ModelInferResponse")
    assert (told.model_name, told.model_version, told.id) == ("round", "1", "7")
    (output,) = told.outputs
    assert (output.name, output.datatype, [*output.shape]) == ("Y", "FP32", [10])
    assert answer.fields["execution-backend"]
    assert answer.fields["x-request-id"]


def test_many_calls_at_a_time(client: Client) -> None:
    x = np.random.default_rng(1).normal(scale=9, size=1 << 15).astype("<f4")
    content = framed(infer_request(document(binary("FP32", [x.size], x.nbytes)), x.tobytes()))
    streams = [client.begin("ModelInfer") for _ in range(16)]
    for start in range(0, len(content), 1 << 14):
        for stream in streams:
            client.send(stream, content[start : start + (1 << 14)])
    for stream in streams:
        client.send(stream, b"", ends=True)
    for stream in streams:
        assert tensor_of(client.finish(stream)).tobytes() == np.rint(x).tobytes()


def test_fields_in_any_order(client: Client) -> None:
    request = infer_request(GOOD, X.tobytes())
    raw = made("ModelInferRequest", raw_input_contents=[X.tobytes()]).SerializeToString()
    request.ClearField("raw_input_contents")
    answer = client.call("ModelInfer", raw + request.SerializeToString())
    assert tensor_of(answer).tobytes() == EVEN.tobytes()


def test_the_output_is_in_bytes_whatever_is_wished(client: Client) -> None:
    """The wishes for JSON of HTTP have no meaning here; some clients send them to either."""
    output = {"name": "Y", "parameters": {"binary_data": False}}
    for wishes in ({"parameters": {"binary_data_output": False}}, {"outputs": [output]}):
        answer = client.call("ModelInfer", infer_request(GOOD | wishes, X.tobytes()))
        assert tensor_of(answer).tobytes() == EVEN.tobytes()


def test_a_compressed_message(client: Client) -> None:
    raw = gzip.compress(infer_request(GOOD, X.tobytes()).SerializeToString())
    stream = client.begin("ModelInfer", ("grpc-encoding", "gzip"))
    client.send(stream, framed(raw, is_compressed=True), ends=True)
    assert tensor_of(client.finish(stream)).tobytes() == EVEN.tobytes()


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer", "ServerLive"])
@pytest.mark.parametrize(
    ("coding", "status"),
    [("", 13), ("identity", 13), ("snappy", 12)],
    ids=["no", "identity", "other"],
)
def test_compression_that_is_unnamed_or_unknown_ends_the_call(
    client: Client, coding: str, status: int, method: str
) -> None:
    stream = client.begin(method, *[("grpc-encoding", coding)] if coding else [])
    client.send(stream, framed(b"abc", is_compressed=True), ends=True)
    answer = client.finish(stream)
    assert answer.status == status
    assert "grpc-encoding" in answer.text
    accepted = "identity,gzip,deflate" if status == 12 else None
    assert answer.fields.get("grpc-accept-encoding") == accepted


def test_malformed_messages_are_refused(client: Client) -> None:
    stream = client.begin("ModelInfer")
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 3
    whole = framed(infer_request(GOOD, X.tobytes()))
    for content in (whole[:3], whole[:20], whole[:-1], whole + b"\0", b"\2" + whole[1:]):
        stream = client.begin("ModelInfer")
        client.send(stream, content, ends=True)
        assert client.finish(stream).status == 3
    assert client.call("ModelInfer", b"\xff" * 9).status == 3


def test_a_stream_of_inferences(client: Client) -> None:
    stream = client.begin("ModelStreamInfer")
    good = framed(infer_request(GOOD | {"id": "1"}, X.tobytes()))
    bad = framed(infer_request(GOOD, X.tobytes(), "none"))
    client.send(stream, good)
    client.wait(stream, 1)
    client.send(stream, bad + good)
    client.send(stream, framed(b"\xff" * 9) + good, ends=True)
    answer = client.finish(stream)
    assert answer.status == 0
    told: list[Any] = [made("ModelStreamInferResponse") for _ in answer.messages]
    for each, content in zip(told, answer.messages, strict=True):
        each.ParseFromString(content)
    assert [bool(each.error_message) for each in told] == [False, True, False, True, False]
    assert "none" in told[1].error_message
    for each in told[0], told[2], told[4]:
        assert each.infer_response.id == "1"
        assert each.infer_response.raw_output_contents[0] == EVEN.tobytes()


REQUEST = infer_request(document(OF_X), X.tobytes())
EXPIRED = "the time that grpc-timeout states has passed"


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_a_request_that_does_not_come_in_time(
    service: Service, client: Client, method: str
) -> None:
    stream = client.begin(method, ("grpc-timeout", "50m"), ("x-request-id", f"late-{method}"))
    client.send(stream, framed(REQUEST)[:-1])
    answer = client.finish(stream)
    assert (answer.status, answer.text) == (4, EXPIRED)
    assert "status=499" in service.logged(f"late-{method}")
    assert tensor_of(client.call("ModelInfer", REQUEST)).tobytes() == EVEN.tobytes()


def test_a_message_between_which_and_the_next_the_time_passes(client: Client) -> None:
    stream = client.begin("ModelStreamInfer", ("grpc-timeout", "1S"))
    client.send(stream, framed(REQUEST))
    assert len(client.wait(stream, 1)) == 1
    answer = client.finish(stream)
    assert (answer.status, answer.text) == (4, EXPIRED)


def test_watch_ends_at_its_deadline(client: Client) -> None:
    stream = client.begin(f"/{HEALTH}/Watch", ("grpc-timeout", "200000u"))
    client.send(stream, framed(b""), ends=True)
    assert client.finish(stream).status == 4
    assert len(client.answers[stream].messages) == 1


def test_an_answer_that_is_not_read_in_time(service: Service) -> None:
    """It is reset, as half a message cannot be followed by a status."""
    nbytes = 4 << 20
    request = infer_request(document(tensor("FP32", [nbytes // 4])), bytes(nbytes))
    with connected(service) as client:
        client.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 16})
        stream = client.begin("ModelInfer", ("grpc-timeout", "5S"))
        client.send(stream, framed(request), ends=True)
        answer = client.answers[stream]
        while not answer.is_ended:
            client.receive(acknowledges=False)
        assert answer.was_reset
        assert 0 < len(answer.content) <= 1 << 16
        assert client.call("ServerLive", b"").status == 0


@pytest.mark.parametrize("timeout", ["99999999H", "1M", "60S", "60000m", "60000000u"])
def test_enough_time(client: Client, timeout: str) -> None:
    answer = client.call("ModelInfer", REQUEST, ("grpc-timeout", timeout))
    assert tensor_of(answer).tobytes() == EVEN.tobytes()


@pytest.mark.parametrize("timeout", ["0m", "0S", "00000000H", "1n"])
def test_time_that_has_passed(client: Client, timeout: str) -> None:
    answer = client.call("ModelInfer", REQUEST, ("grpc-timeout", timeout))
    assert (answer.status, answer.text) == (4, EXPIRED)


@pytest.mark.parametrize("timeout", ["1", "S", "123456789S", "-1S", "1.5S", "1s", "1 S", "+1S"])
def test_invalid_grpc_timeout_is_refused(client: Client, timeout: str) -> None:
    answer = client.call("ServerReady", made("ServerReadyRequest"), ("grpc-timeout", timeout))
    assert answer.status == 3
    assert answer.text.startswith("grpc-timeout must be up to 8 digits and one of the units")


CHECK, LIST, WATCH = (f"/{HEALTH}/{method}" for method in ("Check", "List", "Watch"))
HEALTH_REQUEST, HEALTH_RESPONSE = (
    f"grpc.health.v1.HealthCheck{s}" for s in ("Request", "Response")
)
REFLECTION = "grpc.reflection.v1"


def test_health(client: Client) -> None:
    for service in ("", "inference.GRPCInferenceService", HEALTH):
        answer = client.call(CHECK, made(HEALTH_REQUEST, service=service))
        assert answer.read(HEALTH_RESPONSE).status == 1
    assert client.call(CHECK, made(HEALTH_REQUEST, service="none")).status == 5
    told = client.call(LIST, b"").read("grpc.health.v1.HealthListResponse").statuses
    assert {service: told[service].status for service in told} == dict.fromkeys(
        ("", "inference.GRPCInferenceService", HEALTH), 1
    )


def test_watching_a_service_that_is_not_there(client: Client) -> None:
    stream = client.begin(WATCH)
    client.send(stream, framed(made(HEALTH_REQUEST, service="none")), ends=True)
    (content,) = client.wait(stream, 1)
    told: Any = made(HEALTH_RESPONSE)
    told.ParseFromString(content)
    assert told.status == 3


def test_versions_that_are_no_numbers_are_in_the_metadata_alone(client: Client) -> None:
    for model, versions in (("openvino_round", [5]), ("directml_element_wise_round", [])):
        answer = client.call("ModelConfig", made("ModelConfigRequest", name=model))
        config = answer.read("ModelConfigResponse").config
        assert [*config.version_policy.specific.versions] == versions


def test_unknown_method_or_message_has_its_status(client: Client) -> None:
    assert client.call("NoMethod", b"").status == 12
    assert client.call("/no.Service/Method", b"").status == 12
    assert client.call("ServerLive", bytes(1 << 20)).status == 8
    assert client.call("ServerLive", b"\xff").status == 3


def test_every_method_that_reflection_tells_is_there(client: Client) -> None:
    told = [(file.package, service) for file in FILES.file for service in file.service]
    for package, service in told:
        for method in service.method:
            stream = client.begin(f"/{package}.{service.name}/{method.name}")
            client.send(stream, b"", ends=True)
            assert client.finish(stream).status != 12, (service.name, method.name)


def test_reflection(client: Client) -> None:
    path = f"/{REFLECTION}.ServerReflection/ServerReflectionInfo"
    asked = [
        {"list_services": ""},
        {"file_containing_symbol": "inference.GRPCInferenceService.ModelInfer"},
        {"file_containing_symbol": "inference.ModelConfig"},
        {"file_by_filename": "grpc_health/v1/health.proto"},
        {"file_by_filename": "none.proto"},
        {"all_extension_numbers_of_type": "inference.ModelConfig"},
    ]
    stream = client.begin(path)
    told: list[Any] = []
    for number, members in enumerate(asked, 1):
        client.send(stream, framed(made(f"{REFLECTION}.ServerReflectionRequest", **members)))
        told.append(made(f"{REFLECTION}.ServerReflectionResponse"))
        told[-1].ParseFromString(client.wait(stream, number)[-1])
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 0
    services = {each.name for each in told[0].list_services_response.service}
    assert {"inference.GRPCInferenceService", HEALTH, f"{REFLECTION}.ServerReflection"} <= services
    found = [len(each.file_descriptor_response.file_descriptor_proto) for each in told[1:4]]
    assert found == [2, 1, 1]
    assert [each.error_response.error_code for each in told[4:]] == [5, 12]


def test_questions_of_reflection_hold_memory_one_by_one(client: Client) -> None:
    """Each of them needs 256 KiB while it is decoded, of 16 MiB."""
    stream = client.begin(
        f"/{REFLECTION}.ServerReflection/ServerReflectionInfo", ("grpc-encoding", "gzip")
    )
    asked = made(f"{REFLECTION}.ServerReflectionRequest", list_services="")
    raw = gzip.compress(asked.SerializeToString())
    client.send(stream, framed(raw, is_compressed=True) * 100, ends=True)
    answer = client.finish(stream)
    assert (answer.status, len(answer.messages)) == (0, 100)


@pytest.mark.parametrize(
    "content_type",
    ["application/grpc+proto", "Application/GRPC", "application/grpc;charset=utf-8"],
)
def test_content_types_of_grpc(client: Client, content_type: str) -> None:
    assert client.call("ServerLive", b"", ("content-type", content_type)).status == 0


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "application/grpcfoo",
        "application/grpc-web",
        "application/grpc+json",
    ],
)
def test_other_content_types_are_no_calls(client: Client, content_type: str) -> None:
    answer = client.call("ServerLive", b"", ("content-type", content_type))
    assert answer.fields[":status"] == "404"


@pytest.mark.parametrize(("method", "status"), [("GET", "404"), ("PUT", "404"), ("post", "501")])
def test_other_methods_are_no_calls(client: Client, method: str, status: str) -> None:
    answer = client.call("ServerLive", b"", (":method", method))
    assert answer.fields[":status"] == status


@pytest.mark.parametrize("size", [17_000, 50_000])
def test_long_metadata_is_refused_alone(client: Client, size: int) -> None:
    """Also of calls that are no gRPC; those under way and later ones on the connection go on."""
    under_way, content = client.begin("ModelInfer"), framed(REQUEST)
    client.send(under_way, content[:-1])
    answer = client.call("ServerLive", b"", ("x-long", "y" * size))
    assert answer.status == 8
    assert "metadata" in answer.text
    foreign = client.call("ServerLive", b"", ("x-long", "y" * size), ("content-type", "text/plain"))
    assert foreign.fields[":status"] == "431"
    client.send(under_way, content[-1:], ends=True)
    assert tensor_of(client.finish(under_way)).tobytes() == EVEN.tobytes()


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT8", "INT32", "INT64", "UINT8", "UINT64"])
def test_typed_contents_are_answered_by_typed_contents(client: Client, datatype: str) -> None:
    dtype = np.dtype(datatype.lower().replace("fp", "float"))
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    given = np.array([limits.min, limits.max, 1, 0, 127, 2.5, 100], dtype)
    given = np.resize(given, 20_000)
    expected = np.rint(given) if dtype.kind == "f" else given
    request = infer_request(document(tensor(datatype, [given.size], data=given.tolist())))
    for method in ("ModelInfer", "ModelStreamInfer"):
        answer = client.call(method, request)
        told = answer.read(f"{method}Response")
        response = told if method == "ModelInfer" else told.infer_response
        assert response.outputs[0].HasField("contents")
        assert output_bytes(response) == expected.tobytes()


def test_typed_contents_without_numbers(client: Client) -> None:
    response = client.call("ModelInfer", infer_request(document(tensor("INT8", [0], data=[]))))
    assert response.read("ModelInferResponse").outputs[0].HasField("contents")
    response = client.call("ModelInfer", infer_request(document(tensor("FP16", [0], data=[]))))
    assert response.read("ModelInferResponse").raw_output_contents[:] == [b""]


INFER = "/inference.GRPCInferenceService/ModelInfer"


def test_keys(tmp_path: Path) -> None:
    """Of methods that only this transport has; see the guards of both."""
    with (
        Service(*needing(tmp_path, "open sesame")) as service,
        connected(service) as client,
    ):
        assert client.call("NoMethod", b"").status == 16
        assert client.call(f"/{HEALTH}/Check", b"").status == 0


@pytest.mark.parametrize(
    ("host", "says"),
    [("127.0.0.1:99999999", "must be a host name"), ("evil.example", "ALLOWED_HOSTS")],
)
def test_hosts(client: Client, host: str, says: str) -> None:
    answer = client.call("ServerLive", b"", (":authority", host))
    assert answer.status == 3
    assert says in answer.text


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
    caller, other = caller_context(CLIENT), caller_context(CLIENT)
    caller.set_alpn_protocols(["http/1.1", "h2"])
    options = ("--ssl-ca-certs", str(CA))
    with TlsService(*options, caller=other) as service:
        assert service.get("/v2/health/live").json() == {"live": True}, "by HTTP/1.1"
        service.caller = caller
        with connected(service) as client:
            answer = client.call("ModelInfer", REQUEST)
            assert tensor_of(answer).tobytes() == EVEN.tobytes()


def test_it_can_be_turned_off() -> None:
    with Service("--grpc", "false") as service, connected(service) as client:
        stream = client.begin("ServerLive")
        client.send(stream, framed(b""), ends=True)
        assert client.finish(stream).fields[":status"] == "404"


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
