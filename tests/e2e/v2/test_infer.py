"""Inference over plain HTTP: what tritonclient does not say, or says in its own way only."""

from __future__ import annotations

import gzip
import json
import math
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    AWAY,
    EVEN,
    HEADER_LENGTH,
    ZERO,
    Answer,
    X,
    binary,
    document,
    infer,
    infer_path,
    tensor,
)
from support.services.server import Reply, Service
from tensor_round.conformance.patterns import samples
from tensor_round.conformance.reference import is_nan, rounded

OF_X = binary("FP32", [X.size], X.nbytes)
BINARY_OUT = {"parameters": {"binary_data_output": True}}


def test_the_answers_bytes(service: Service) -> None:
    reply = infer(service, document(OF_X, id="a", **BINARY_OUT), X.tobytes())
    head = (
        b'{"id":"a","model_name":"round","model_version":"1","outputs":[{"name":"Y",'
        b'"datatype":"FP32","shape":[10],"parameters":{"binary_data_size":40}}]}'
    )
    assert reply.content == head + EVEN.tobytes()
    assert reply.headers[HEADER_LENGTH] == str(len(head))
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Execution-Backend"] in ("numpy", "cupy")
    assert reply.headers["X-Request-ID"]


def test_no_outputs_and_no_wish_is_json(service: Service) -> None:
    answer = Answer.of(infer(service, document(OF_X), X.tobytes()))
    assert answer.payload == b""
    assert answer.output == {"name": "Y", "datatype": "FP32", "shape": [10], "data": EVEN.tolist()}


@pytest.mark.parametrize(
    ("everywhere", "own", "is_binary"),
    [(True, None, True), (True, False, False), (False, True, True), (None, True, True)],
)
def test_an_outputs_own_wish_comes_first(
    service: Service, everywhere: Any, own: Any, is_binary: bool
) -> None:
    output = {"name": "Y", "parameters": {} if own is None else {"binary_data": own}}
    wish = {} if everywhere is None else {"parameters": {"binary_data_output": everywhere}}
    request = document(tensor("FP32", [1], data=[0.5]), outputs=[output], **wish)
    answer = Answer.of(infer(service, request))
    assert answer.payload == (bytes(4) if is_binary else b"")


@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_zero_bytes(service: Service, wish: dict[str, Any]) -> None:
    request = document(binary("FP16", [3, 0], 0), **wish)
    for payload in (b"", None):  # with and without a stated length
        output = Answer.of(infer(service, request, payload)).output
        assert output["shape"] == [3, 0]
        assert output["data"] == [] if not wish else output["parameters"] == {"binary_data_size": 0}


NESTINGS: dict[str, tuple[list[int], Any]] = {
    "flat": ([2, 2], [0.5, 1.5, 2.5, -0.3]),
    "as-shaped": ([2, 2], [[0.5, 1.5], [2.5, -0.3]]),
    "otherwise": ([2, 2], [[0.5], [[1.5, [2.5]]], -0.3]),
    "deep": ([4], [[[[[[[[0.5, 1.5, 2.5, -0.3]]]]]]]]),
    "empty-arrays": ([4], [[], [0.5, 1.5], [], [[], 2.5], -0.3]),
}


@pytest.mark.parametrize(("shape", "data"), NESTINGS.values(), ids=NESTINGS)
def test_data_nests_however_it_likes(service: Service, shape: list[int], data: Any) -> None:
    output = Answer.of(infer(service, document(tensor("FP32", shape, data=data)))).output
    assert output["data"] == [0, 2, 2, 0]
    assert math.copysign(1, output["data"][3]) == -1


@pytest.mark.parametrize("data", [7.5, [7.5], [[7.5]]], ids=str)
def test_a_scalar(service: Service, data: Any) -> None:
    output = Answer.of(infer(service, document(tensor("FP64", [], data=data)))).output
    assert (output["shape"], output["data"]) == ([], [8.0])


@pytest.mark.parametrize(("dtype", "datatype"), [("float16", "FP16"), ("bfloat16", "BF16")])
def test_narrow_floats_in_json_both_ways(service: Service, dtype: str, datatype: str) -> None:
    patterns = samples(dtype)
    form = binary(datatype, [patterns.size], patterns.nbytes)
    texts = Answer.of(infer(service, document(form), patterns.tobytes())).output["data"]
    expected = rounded(patterns, dtype, "ties_to_even")
    again = document(tensor(datatype, [patterns.size], data=texts), **BINARY_OUT)
    found = np.frombuffer(Answer.of(infer(service, again)).payload, patterns.dtype)
    nan = is_nan(dtype, expected)
    np.testing.assert_array_equal(found[~nan], expected[~nan])
    assert is_nan(dtype, found)[nan].all()


def test_json_decimals_are_rounded_once(service: Service) -> None:
    # By way of float32 it would be a tie, and go to 1.
    data = [1.0004882812500002, "NaN", "-Infinity"]
    request = document(tensor("FP16", [3], data=data), **BINARY_OUT)
    reply = infer(service, json.dumps(request).encode().replace(b'"NaN"', b"NaN"))
    assert Answer.of(reply).payload == np.array([1, np.nan, -np.inf], "<f2").tobytes()
    big = document(tensor("UINT64", [2], data=[2**64 - 1, 2**53 + 1]))
    assert Answer.of(infer(service, big)).output["data"] == [2**64 - 1, 2**53 + 1]


def test_special_values_are_bare_tokens(service: Service) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e300], "<f8")
    reply = infer(service, document(binary("FP64", [5], 40)), x.tobytes())
    assert b'"data":[NaN,Infinity,-Infinity,-0.0,1e+300]' in reply.content


FP8: dict[str, Any] = {"parameters": {"dtype": "float8_e5m2", "binary_data_size": 256}}


@pytest.mark.parametrize("model", ["round", "openvino_round"])
def test_fp8(service: Service, model: str) -> None:
    patterns = samples("float8_e5m2")
    request = document(tensor("UINT8", [256], **FP8), **BINARY_OUT)
    answer = Answer.of(infer(service, request, patterns.tobytes(), model))
    assert answer.payload == rounded(patterns, "float8_e5m2", "ties_to_even").tobytes()
    assert answer.output["datatype"] == "UINT8"
    assert answer.output["parameters"]["dtype"] == "float8_e5m2"


@pytest.mark.parametrize("place", ["input", "request", "both"])
def test_where_dtype_may_stand(service: Service, place: str) -> None:
    dtype: dict[str, Any] = {"parameters": {"dtype": "float8_e4m3fn"}}
    own = dtype if place != "request" else {}
    request = document(
        tensor("UINT8", [1], data=[0x3A], **own), **(dtype if place != "input" else {})
    )
    assert Answer.of(infer(service, request)).output["data"] == [0x38]  # 1.25 -> 1.0


# Every parameter a dialect has, under every name that only some model knows.
MODES: list[tuple[str, dict[str, Any], Any]] = [
    ("round", {"rounding": "ties_to_away"}, AWAY),
    ("round", {"unknown": "parameter", "priority": 7, "timeout": 0}, EVEN),
    ("openvino_round", {"mode": "half_to_even"}, EVEN),
    ("openvino_round", {"mode": "half_away_from_zero"}, AWAY),
    ("directml_element_wise_round", {"rounding_mode": "HALVES_TO_NEAREST_EVEN"}, EVEN),
    ("directml_element_wise_round", {"rounding_mode": 2}, AWAY),
    ("directml_element_wise_round", {"rounding_mode": "TOWARD_ZERO"}, ZERO),
]


@pytest.mark.parametrize(("model", "parameters", "expected"), MODES)
def test_modes(service: Service, model: str, parameters: dict[str, Any], expected: Any) -> None:
    name = "InputTensor" if model.startswith("directml") else "X"
    request = document(binary("FP32", [10], 40, name), parameters=parameters)
    request["parameters"] = {**parameters, "binary_data_output": True}
    answer = Answer.of(infer(service, request, X.tobytes(), model))
    assert answer.payload == expected.tobytes()


@pytest.mark.parametrize(
    ("model", "version", "shape", "parameters"),
    [
        ("directml_element_wise_round", "2_1", [1, 1, 2, 5], {}),
        ("directml_element_wise_round", "6_4", [1] * 7 + [10], {}),
        ("onnx_round", "22", [10, 1] + [1] * 30, {}),
        ("onnx_round", "11", [], {}),
        ("openvino_round", "5", [0], {}),
    ],
)
def test_every_rank_the_dialect_allows(
    service: Service, model: str, version: str, shape: list[int], parameters: dict[str, Any]
) -> None:
    name = "InputTensor" if model.startswith("directml") else "X"
    payload = X[: math.prod(shape)].tobytes()
    request = document(binary("FP32", shape, len(payload), name), **BINARY_OUT)
    answer = Answer.of(infer(service, request, payload, model, version))
    assert answer.payload == EVEN[: math.prod(shape)].tobytes()
    assert (answer.head["model_version"], answer.output["shape"]) == (version, shape)


def test_the_newest_version_is_the_default(service: Service) -> None:
    for model, version in (("onnx_round", "22"), ("directml_element_wise_round", "6_4")):
        name = "InputTensor" if model.startswith("directml") else "X"
        request = document(tensor("FP16", [1], name, data=[1.5]))
        assert Answer.of(infer(service, request, model=model)).head["model_version"] == version


def test_raw_bodies(service: Service) -> None:
    for model in ("round", "onnx_round", "openvino_round", "directml_element_wise_round"):
        answer = Answer.of(infer(service, b"", X.tobytes(), model, headers={HEADER_LENGTH: "0"}))
        assert answer.payload == EVEN.tobytes()
        assert answer.output["shape"] == [10]


@pytest.mark.parametrize("form", ["chunked", "gzip", "deflate"])
def test_raw_bodies_of_unstated_length(service: Service, form: str) -> None:
    x = np.tile(X, 20_000)
    forms: dict[str, Any] = {
        "chunked": lambda: pieces(x.tobytes(), 50_000),
        "gzip": lambda: gzip.compress(x.tobytes()),
        "deflate": lambda: zlib.compress(x.tobytes()),
    }
    data = forms[form]()
    field = "Transfer-Encoding" if form == "chunked" else "Content-Encoding"
    headers = {HEADER_LENGTH: "0", field: form}
    reply = service.request("POST", infer_path("round"), data, headers)
    assert Answer.of(reply).payload == np.rint(x).tobytes()


def pieces(payload: bytes, size: int) -> Iterator[bytes]:
    yield from (payload[at : at + size] for at in range(0, len(payload), size))


@pytest.mark.parametrize("length", [10, 20_000, 300_000])
@pytest.mark.parametrize("size", [7, 4096, 100_000])
def test_chunked_uploads(service: Service, length: int, size: int) -> None:
    x = np.resize(X, length)
    if x.nbytes / size > 10_000:
        size = 4096
    head = json.dumps(document(binary("FP32", [length], x.nbytes), **BINARY_OUT)).encode()
    reply = service.request(
        "POST",
        infer_path("round"),
        pieces(head + x.tobytes(), size),
        {HEADER_LENGTH: str(len(head)), "Transfer-Encoding": "chunked"},
    )
    assert Answer.of(reply).payload == np.rint(x).tobytes()


def test_chunked_json(service: Service) -> None:
    x = np.resize(X, 5000)
    head = json.dumps(document(tensor("FP32", [5000], data=x.tolist()))).encode()
    headers = {"Transfer-Encoding": "chunked"}
    reply = service.request("POST", infer_path("round"), pieces(head, 1000), headers)
    assert Answer.of(reply).output["data"] == np.rint(x).tolist()


def test_a_head_that_comes_in_two_parts(service: Service) -> None:
    x = np.resize(X, 100_000)
    head = json.dumps(document(binary("FP32", [x.size], x.nbytes), **BINARY_OUT)).encode()
    body = head + x.tobytes()
    connection = service.connection()
    for cut in (1, len(head) // 2, len(head), len(head) + 3, len(head) + 70_000):
        connection.putrequest("POST", infer_path("round"))
        connection.putheader(HEADER_LENGTH, str(len(head)))
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:cut])
        time.sleep(0.05)
        connection.send(body[cut:])
        assert Answer.of(Reply.read(connection)).payload == np.rint(x).tobytes()
    connection.close()


def unpacked(reply: Reply) -> bytes:
    unpack: dict[str | None, Any] = {
        "gzip": gzip.decompress,
        "deflate": zlib.decompress,
        None: bytes,
    }
    content = unpack[reply.headers["Content-Encoding"]](reply.content)
    assert isinstance(content, bytes)
    return content


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0.3, deflate;q=0.8", "deflate"),
        ("gzip;q=0, br", None),
        ("identity", None),
    ],
)
@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_answers_are_packed_as_asked(
    service: Service, wish: dict[str, Any], accepted: str, coding: str | None
) -> None:
    reply = infer(
        service, document(OF_X, **wish), X.tobytes(), headers={"Accept-Encoding": accepted}
    )
    assert reply.headers["Content-Encoding"] == coding
    answer = Answer.of(reply, unpacked(reply))
    assert answer.payload == (EVEN.tobytes() if wish else b"")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "GZip"])
def test_requests_may_be_packed(service: Service, encoding: str) -> None:
    head = json.dumps(document(OF_X, **BINARY_OUT)).encode()
    packers: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress}
    pack = packers.get(encoding.lower(), bytes)
    headers = {HEADER_LENGTH: str(len(head)), "Content-Encoding": encoding}
    reply = service.request("POST", infer_path("round"), pack(head + X.tobytes()), headers)
    assert Answer.of(reply).payload == EVEN.tobytes()


def test_keep_alive_and_repeated_heads(service: Service) -> None:
    head = json.dumps(document(OF_X, **BINARY_OUT)).encode()
    connection = service.connection()
    for n in range(20):
        x = X + n
        connection.request(
            "POST", infer_path("round"), head + x.tobytes(), {HEADER_LENGTH: str(len(head))}
        )
        assert Answer.of(Reply.read(connection)).payload == np.rint(x).tobytes()
    connection.close()


def test_names_may_be_quoted(service: Service) -> None:
    head = json.dumps(document(tensor("FP32", [1], data=[2.5]))).encode()
    for path in ("/v2/models/onnx%5Fround/infer", "/v2/models/%6Fnnx_round/versions/22/infer"):
        assert Answer.of(service.request("POST", path, head)).head["model_name"] == "onnx_round"


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain", "a/b; c=d"])
def test_the_content_type_does_not_matter(service: Service, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    reply = infer(service, document(tensor("FP32", [1], data=[2.5])), headers=headers)
    assert Answer.of(reply).output["data"] == [2.0]


def test_large_tensors(service: Service) -> None:
    x = np.resize(X, 4 << 20)
    request = document(binary("FP32", [4 << 20], x.nbytes), **BINARY_OUT)
    for _ in range(3):
        answer = Answer.of(infer(service, request, x.tobytes()))
        np.testing.assert_array_equal(np.frombuffer(answer.payload, "<f4"), np.rint(x))


def test_long_heads_are_read_off_the_loop(service: Service) -> None:
    x = np.resize(X, 300_000)
    request = document(tensor("FP32", [x.size], data=x.tolist()))
    assert Answer.of(infer(service, request)).output["data"] == np.rint(x).tolist()
