"""Bodies of inferences over HTTP: raw, chunked, coded, JSON and bytes behind it; those refused."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import math
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from support.http.inference_form import (
    BINARY_OUT,
    EVEN,
    GOOD,
    HEADER_LENGTH,
    OF_X,
    PAYLOAD,
    Outcome,
    X,
    binary,
    document,
    error_of,
    infer,
    infer_path,
    of,
    tensor,
)
from support.services.server import Reply, Service

#: A number whose bytes are white space in JSON.
SPACES = np.frombuffer(b"    ", "<f4")[0]
IN_BYTES = document(OF_X, **BINARY_OUT)


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
UNPACK: dict[str | None, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    None: bytes,
}


def pieces(payload: bytes) -> Iterator[bytes]:
    yield from (payload[at : at + 50_000] for at in range(0, len(payload), 50_000))


@pytest.mark.parametrize("form", ["identity", "chunked", "gzip", "deflate"])
def test_raw_bodies(service: Service, form: str) -> None:
    x = np.tile(X, 20_000)
    data: Any = {"identity": bytes, "chunked": pieces, **PACK}[form](x.tobytes())
    field = "Transfer-Encoding" if form == "chunked" else "Content-Encoding"
    headers = {HEADER_LENGTH: "0", field: form}
    answer = Outcome.of(service.request("POST", infer_path("round"), data, headers))
    assert answer.payload == np.rint(x).tobytes()
    assert answer.output["shape"] == [x.size]


@pytest.mark.parametrize(
    ("accepted", "coding", "wish"),
    [
        *(("gzip", "gzip", wish) for wish in ({}, BINARY_OUT)),
        *(("gzip;q=0.5, deflate", "deflate", wish) for wish in ({}, BINARY_OUT)),
        *(("gzip;q=0, br", None, wish) for wish in ({}, BINARY_OUT)),
        # What aiohttp and requests send by themselves.
        ("gzip, deflate", "gzip", {}),
        ("gzip, deflate", None, BINARY_OUT),
    ],
)
def test_answers_are_packed_as_asked(
    service: Service, wish: dict[str, Any], accepted: str, coding: str | None
) -> None:
    headers = {"Accept-Encoding": accepted}
    reply = infer(service, document(OF_X, **wish), X.tobytes(), headers=headers)
    assert reply.headers["Content-Encoding"] == coding
    answer = Outcome.of(reply, UNPACK[coding](reply.content))
    assert answer.payload == (EVEN.tobytes() if wish else b"")


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain", "a/b; c=d"])
def test_the_content_type_does_not_matter(service: Service, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    reply = infer(service, document(tensor("FP32", [1], data=[2.5])), headers=headers)
    assert Outcome.of(reply).output["data"] == [2.0]


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("algorithm", ["sha-256", "sha-512"])
def test_digests_are_of_the_content_as_it_is_sent(
    service: Service, algorithm: str, coding: str
) -> None:
    def field(content: bytes) -> str:
        digest = hashlib.new(algorithm.replace("-", ""), content).digest()
        return f"{algorithm}=:{base64.b64encode(digest).decode()}:"

    head = json.dumps(IN_BYTES).encode()
    headers = {
        "Want-Content-Digest": f"{algorithm}=1",
        "Accept-Encoding": coding,
        "Content-Digest": field(head + X.tobytes()),
    }
    reply = infer(service, head, X.tobytes(), headers=headers)
    assert reply.status == 200
    assert reply.headers["Content-Digest"] == field(reply.content)
    refused = infer(service, head, EVEN.tobytes(), headers=headers)
    assert (refused.status, algorithm.upper() in error_of(refused)) == (400, True)


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
    answer = Outcome.of(infer(service, document(OF_X), X.tobytes()))
    assert answer.payload == b""
    assert answer.output == {"name": "Y", "datatype": "FP32", "shape": [10], "data": EVEN.tolist()}


@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_zero_bytes(service: Service, wish: dict[str, Any]) -> None:
    request = document(binary("FP16", [3, 0], 0), **wish)
    for payload in (b"", None):  # with and without a stated length
        output = Outcome.of(infer(service, request, payload)).output
        assert output["shape"] == [3, 0]
        assert output["data"] == [] if not wish else output["parameters"] == {"binary_data_size": 0}


@pytest.mark.parametrize("count", [10, 1 << 14, 5 << 20])
@pytest.mark.parametrize("value", [0.5, -0.0, SPACES])
def test_missing_header_length_is_named(service: Service, count: int, value: float) -> None:
    x = np.full(count, value, "<f4")
    body = json.dumps(document(binary("FP32", [count], x.nbytes))).encode() + x.tobytes()
    for fields in ({}, {"Content-Type": "application/octet-stream"}):
        reply = infer(service, body, headers=fields)
        assert reply.status in (400, 413)
        assert HEADER_LENGTH in error_of(reply)
    faulty = infer(service, b'{"inputs": [}')
    assert HEADER_LENGTH not in error_of(faulty)
    alone = infer(service, document(binary("FP32", [count], x.nbytes)))
    assert HEADER_LENGTH in error_of(alone)


def test_data_may_be_nested_in_any_way(service: Service) -> None:
    data = [[0.5], [[1.5, [2.5]], []], -0.3]
    output = Outcome.of(infer(service, document(tensor("FP32", [2, 2], data=data)))).output
    assert output["data"] == [0, 2, 2, 0]
    assert math.copysign(1, output["data"][3]) == -1


def test_names_may_be_quoted(service: Service) -> None:
    head = json.dumps(document(tensor("FP32", [1], data=[2.5]))).encode()
    for path in ("/v2/models/onnx%5Fround/infer", "/v2/models/%6Fnnx_round/versions/22/infer"):
        assert Outcome.of(service.request("POST", path, head)).head["model_name"] == "onnx_round"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, b"[NaN,Infinity,-Infinity,-0.0,2.0]"),
        ({"strict_json": False}, b"[NaN,Infinity,-Infinity,-0.0,2.0]"),
        ({"strict_json": True}, b'["NaN","Infinity","-Infinity",-0.0,2.0]'),
    ],
    ids=["tokens", "tokens on demand", "strict"],
)
def test_special_values_are_tokens_or_strings(
    service: Service, parameters: dict[str, Any], text: bytes
) -> None:
    data = ["NaN", "Infinity", "-Infinity", -0.3, 1.5]  # read as /round reads them
    request = document(tensor("BF16", [5], data=data), parameters=parameters)
    assert b'"data":' + text in infer(service, request).content


def as_kserve(x: npt.NDArray[Any], **parameters: Any) -> tuple[dict[str, Any], bytes]:
    """What kserve 0.21 sends for an array; its parser, orjson, takes no bare tokens."""
    source = binary("FP32", [*x.shape], x.nbytes, "input-0")
    more = {"parameters": parameters} if parameters else {}
    return {"id": "seven", "model_name": "round", "inputs": [source], **more}, x.tobytes()


def test_nan_is_read_by_a_client_of_kserve(service: Service) -> None:
    x = np.array([0.5, np.nan, -np.inf], np.float32)
    content = infer(service, *as_kserve(x)).content
    (output,) = json.loads(content, parse_constant=pytest.fail)["outputs"]
    assert output["data"] == [0.0, "NaN", "-Infinity"]
    # As its InferOutput.as_numpy makes the array.
    np.testing.assert_array_equal(np.array(output["data"], np.float32), np.rint(x))
    told = infer(service, *as_kserve(x, strict_json=False)).content
    assert b'"data":[0.0,NaN,-Infinity]' in told


def test_a_long_output_is_strict_too(service: Service) -> None:
    data: list[Any] = [0.5] * 70_000 + ["NaN"]  # more than is written in one block
    request = document(tensor("FP32", [70_001], data=data), parameters={"strict_json": True})
    assert infer(service, request).content.endswith(b',0.0,"NaN"]}]}')


HEAD = json.dumps(GOOD).encode()
N = len(HEAD)
GZIP = {"Content-Encoding": "gzip"}

#: A field beside the stated length of the head, and the body; status, and what the error says.
BODIES: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "head-cut": ({}, HEAD[:-1], 400, HEADER_LENGTH),
    "not-gzip": (GZIP, HEAD + PAYLOAD, 400, "decode"),
    "cut": (GZIP, gzip.compress(HEAD + PAYLOAD)[:-9], 400, "ends before"),
    "short": (GZIP, gzip.compress(HEAD + PAYLOAD[:-1]), 400, "must have 40 bytes"),
    "long": (GZIP, gzip.compress(HEAD + PAYLOAD + b"x"), 400, "40 bytes"),
    "bomb": (GZIP, gzip.compress(HEAD + bytes(64 << 20), 1), 400, "40 bytes"),
    "brotli": ({"Content-Encoding": "br"}, HEAD + PAYLOAD, 415, "gzip"),
    "digest": ({"Content-Digest": f"sha-256=:{'A' * 43}=:"}, HEAD + PAYLOAD, 400, "SHA-256"),
    "length-twice": ({HEADER_LENGTH: f"{N}, {N}"}, HEAD + PAYLOAD, 400, HEADER_LENGTH),
}


@pytest.mark.parametrize(("fields", "body", "status", "says"), BODIES.values(), ids=BODIES)
def test_refused_bodies(
    service: Service, fields: dict[str, str], body: bytes, status: int, says: str
) -> None:
    headers = {HEADER_LENGTH: str(N), **fields}
    reply = service.request("POST", infer_path("round"), body, headers)
    assert reply.status == status
    assert says in error_of(reply)
    assert infer(service, GOOD, PAYLOAD).status == 200


#: What is sent, what follows it; status, and what the error says. Members are the codec's.
DOCUMENTS: dict[str, tuple[Any, bytes | None, int, str]] = {
    "raw-nothing": (b"", b"", 400, "multiple of 4"),
    "raw-part-of-an-element": (b"", PAYLOAD[:-1], 400, "multiple of 4"),
    "not-json": (b"{", None, 400, "not JSON"),
    "dtype-number": (of(parameters={"dtype": 8}), None, 400, "dtype of a FP32"),
    "few-numbers": (of(data=[1]), None, 400, "has 1 element,"),
    "number-for-array": (of(data=1), None, 400, "inputs.0.data: must be an array"),
    "binary-size": (
        document(binary("FP32", [10], 44)),
        PAYLOAD + bytes(4),
        400,
        "40 bytes by its shape and datatype, the request gives 44",
    ),
    "length-not-stated": (HEAD + PAYLOAD, None, 400, "JSON"),
    "bytes-after-numbers": (document(tensor("FP32", [1], data=[1])), b"x", 400, "0 bytes"),
    "overflowing-numbers": (of(shape=[1 << 32, 1 << 32]), None, 413, "limit"),
    "beyond-any-size": (of(shape=[1 << 64]), None, 400, "inputs.0"),
    "too-large": (document(binary("FP32", [1 << 31], 1 << 33)), b"", 413, "limit"),
}


@pytest.mark.parametrize(
    ("request_", "payload", "status", "says"), DOCUMENTS.values(), ids=DOCUMENTS
)
def test_refused_documents(
    service: Service, request_: Any, payload: bytes | None, status: int, says: str
) -> None:
    reply = infer(service, request_, payload)
    assert reply.status == status
    assert says in error_of(reply)
    assert infer(service, GOOD, PAYLOAD).status == 200


def test_a_json_bomb(service: Service) -> None:
    body = gzip.compress(b'{"inputs":' + b" " * (64 << 20))
    reply = service.request("POST", infer_path("round"), body, GZIP)
    assert reply.status == 413
    assert error_of(reply)


def test_an_output_too_large_for_json(service: Service) -> None:
    x = np.ones((8 << 20) + 1, "i1")
    reply = infer(service, document(binary("INT8", [x.size], x.nbytes)), x.tobytes())
    assert reply.status == 413
    assert "binary" in error_of(reply)


@pytest.mark.not_behind("nginx", reason="it has a limit of its own, or waits for the body")
@pytest.mark.parametrize(
    ("length", "stated", "status"),
    [
        (10 << 30, N, 413),  # a tensor over the limit
        (10 << 30, None, 413),  # JSON over its limit
        (10 << 30, 10 << 30, 413),
        (N, N + 1, 400),
    ],
)
def test_a_refusal_does_not_wait_for_the_body(
    service: Service, length: int, stated: int | None, status: int
) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        began = time.monotonic()
        connection.putrequest("POST", infer_path("round"))
        if stated is not None:
            connection.putheader(HEADER_LENGTH, str(stated))
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        reply = Reply.read(connection)
        assert reply.status == status
        assert error_of(reply)
        assert time.monotonic() - began < 20


@pytest.mark.not_behind("nginx-buffering", reason="it waits for the body")
def test_a_refusal_after_the_head_does_not_wait_for_the_rest(service: Service) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", infer_path("round"))
        connection.putheader(HEADER_LENGTH, str(N))
        connection.putheader("Content-Length", str(N + (1 << 20)))
        connection.endheaders(HEAD)
        connection.send(bytes(1 << 17))
        reply = Reply.read(connection)
        assert reply.status == 400
        assert "must have 40 bytes, as shape and datatype say, got 1048576" in error_of(reply)
