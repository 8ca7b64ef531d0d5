"""``ModelInfer`` and ``ModelStreamInfer``: messages, refusals as over HTTP, and deadlines."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest
from h2.settings import SettingCodes

from support.http.grpc_client import Client, connected, framed, infer_request, made, tensor_of
from support.http.inference_form import EVEN, OF_X, X, binary, document, tensor
from support.services.server import Service
from tensor_round_service.grpc.health import NAME as HEALTH

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


def test_compression_that_is_unnamed_or_unknown_is_refused(client: Client) -> None:
    for fields in [(), (("grpc-encoding", "snappy"),)]:
        stream = client.begin("ModelInfer", *fields)
        client.send(stream, framed(b"abc", is_compressed=True), ends=True)
        assert client.finish(stream).status == 12


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


@pytest.mark.parametrize("timeout", ["1", "S", "123456789S", "-1S", "1.5S", "1s", "1 S", "+1S"])
def test_invalid_grpc_timeout_is_refused(client: Client, timeout: str) -> None:
    answer = client.call("ServerReady", made("ServerReadyRequest"), ("grpc-timeout", timeout))
    assert answer.status == 3
    assert answer.text.startswith("grpc-timeout must be up to 8 digits and one of the units")
