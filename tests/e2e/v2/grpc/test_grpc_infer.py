"""``ModelInfer`` and ``ModelStreamInfer``: the tensor in every form, and refusals as over HTTP."""

from __future__ import annotations

import gzip
import time
from typing import Any

import numpy as np
import pytest
from google.protobuf import message

from support.http.grpc_client import (
    Client,
    connected,
    framed,
    infer_request,
    made,
    tensor_of,
)
from support.http.inference_form import EVEN, OF_X, X, binary, document, error_of, infer, tensor
from support.segments import segment
from support.services.server import Service

GOOD = document(OF_X)
#: The status of gRPC for that of HTTP.
STATUSES = {400: 3, 404: 5, 413: 8}


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


@pytest.mark.parametrize("count", [0, 1, 1 << 10, 1 << 14, 1 << 18, 3 << 20])
def test_tensors_of_all_lengths(client: Client, count: int) -> None:
    x = np.random.default_rng(count).normal(scale=9, size=count).astype("<f4")
    request = infer_request(document(binary("FP32", [count], x.nbytes)), x.tobytes())
    assert tensor_of(client.call("ModelInfer", request, cut=1 << 20)).tobytes() == (
        np.rint(x).tobytes()
    )


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


def test_typed_contents(client: Client) -> None:
    floats = tensor("FP32", [2, 2], data=[0.5, 1.5, -0.25, 2.6])
    answer = client.call("ModelInfer", infer_request(document(floats)))
    assert tensor_of(answer).tolist() == [0.0, 2.0, -0.0, 3.0]
    numbers = tensor("INT8", [3], data=[-128, 0, 127])
    answer = client.call("ModelInfer", infer_request(document(numbers)))
    assert tensor_of(answer, "i1").tolist() == [-128, 0, 127]


def test_fields_in_any_order(client: Client) -> None:
    request = infer_request(GOOD, X.tobytes())
    raw = made("ModelInferRequest", raw_input_contents=[X.tobytes()]).SerializeToString()
    request.ClearField("raw_input_contents")
    answer = client.call("ModelInfer", raw + request.SerializeToString())
    assert tensor_of(answer).tobytes() == EVEN.tobytes()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_a_type_that_is_carried(client: Client, name: str) -> None:
    source = binary("UINT8", [2], 2)
    source["parameters"]["dtype"] = name
    answer = client.call("ModelInfer", infer_request(document(source), b"\x00\x80"))
    assert tensor_of(answer, "u1").tobytes() == b"\x00\x80"
    (output,) = answer.read("ModelInferResponse").outputs
    assert output.parameters["dtype"].string_param == name


def test_a_compressed_message(client: Client) -> None:
    raw = gzip.compress(infer_request(GOOD, X.tobytes()).SerializeToString())
    stream = client.begin("ModelInfer", ("grpc-encoding", "gzip"))
    client.send(stream, framed(raw, is_compressed=True), ends=True)
    assert tensor_of(client.finish(stream)).tobytes() == EVEN.tobytes()


def test_compression_that_is_not_named_or_unknown(client: Client) -> None:
    for fields in [(), (("grpc-encoding", "snappy"),)]:
        stream = client.begin("ModelInfer", *fields)
        client.send(stream, framed(b"abc", is_compressed=True), ends=True)
        assert client.finish(stream).status == 12


DIRECTML = "directml_element_wise_round"
REFUSED: dict[str, tuple[dict[str, Any], bytes | None, str]] = {
    "model": (GOOD, X.tobytes(), "none"),
    "misplaced mode": (GOOD | {"parameters": {"mode": "x"}}, X.tobytes(), "round"),
    "unknown mode": (GOOD | {"parameters": {"rounding": "up"}}, X.tobytes(), "round"),
    "datatype of the model": (document(binary("FP64", [1], 8)), bytes(8), DIRECTML),
    "datatype": (document(binary("BOOL", [1], 1)), b"\0", "round"),
    "two inputs": ({"inputs": [OF_X, OF_X]}, None, "round"),
    "output": (GOOD | {"outputs": [{"name": "Z"}]}, X.tobytes(), "round"),
    "unknown region": (
        document(
            tensor(
                "FP32",
                [10],
                parameters={"shared_memory_region": "none", "shared_memory_byte_size": 40},
            )
        ),
        None,
        "round",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_http(service: Service, client: Client, name: str) -> None:
    asked, payload, model = REFUSED[name]
    of_http = (
        infer(service, asked, payload, model) if payload else infer(service, asked, model=model)
    )
    answer = client.call("ModelInfer", infer_request(asked, payload, model))
    assert answer.status == STATUSES[of_http.status]
    if name != "two inputs":  # there the bytes of both are missing first
        assert answer.text == error_of(of_http)
    assert not answer.content


def test_a_tensor_of_another_length_than_its_shape(client: Client) -> None:
    answer = client.call("ModelInfer", infer_request(GOOD, X.tobytes()[:-4]))
    assert answer.status == 3
    assert "40 bytes" in answer.text


def test_messages_that_are_none(client: Client) -> None:
    stream = client.begin("ModelInfer")
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 3
    whole = framed(infer_request(GOOD, X.tobytes()))
    for content in (whole[:3], whole[:20], whole[:-1], whole + b"\0", b"\2" + whole[1:]):
        stream = client.begin("ModelInfer")
        client.send(stream, content, ends=True)
        assert client.finish(stream).status == 3
    assert client.call("ModelInfer", b"\xff" * 9).status == 3


def test_a_tensor_for_which_there_is_no_room(service: Service, client: Client) -> None:
    content = framed(octets(12 << 20))
    held = client.begin("ModelInfer")
    client.send(held, content[: 1 << 20])
    with connected(service) as other:
        stream = other.begin("ModelInfer")
        other.send(stream, content[: 60 << 10])
        refused = other.finish(stream)
        assert refused.status == 14
        assert int(refused.fields["grpc-retry-pushback-ms"]) >= 1000
        assert other.call("ServerLive", b"").status == 0
    client.state.reset_stream(held)
    client.flush()
    ends = time.monotonic() + 30
    while client.call("ModelInfer", content[5:]).status == 14:  # its task ends a turn later
        assert time.monotonic() < ends
    assert client.call("ModelInfer", content[5:]).status == 0
    stream = client.begin("ModelInfer")
    client.send(stream, framed(octets(17 << 20))[: 60 << 10])
    assert client.finish(stream).status == 8


def octets(count: int) -> message.Message:
    """A request for so many integers."""
    return infer_request(document(binary("INT8", [count], count)), bytes(count))


def test_a_tensor_in_shared_memory(client: Client) -> None:
    with segment(X.nbytes) as owned:
        owned.memory[:] = X.view(np.uint8)
        register = made(
            "SystemSharedMemoryRegisterRequest", name="g", key="/" + owned.key, byte_size=X.nbytes
        )
        assert client.call("SystemSharedMemoryRegister", register).status == 0
        status = client.call("SystemSharedMemoryStatus", b"")
        regions = status.read("SystemSharedMemoryStatusResponse").regions
        assert (regions["g"].byte_size, regions["g"].key) == (X.nbytes, "/" + owned.key)
        place = {"shared_memory_region": "g", "shared_memory_byte_size": X.nbytes}
        asked = document(tensor("FP32", [10], parameters=place))
        answer = client.call("ModelInfer", infer_request(asked))
        assert tensor_of(answer).tobytes() == EVEN.tobytes()
        answer = client.call(
            "ModelInfer", infer_request(asked | {"outputs": [{"name": "Y", "parameters": place}]})
        )
        told = answer.read("ModelInferResponse")
        assert not told.raw_output_contents
        assert told.outputs[0].parameters["shared_memory_region"].string_param == "g"
        assert owned.memory.tobytes() == EVEN.tobytes()
        unregister = made("SystemSharedMemoryUnregisterRequest", name="g")
        assert client.call("SystemSharedMemoryUnregister", unregister).status == 0


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
