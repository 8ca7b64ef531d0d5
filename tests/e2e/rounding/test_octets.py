"""The octet-stream form on a real socket: dialects, layouts, lengths, encodings, headers."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Reply, Service

X = np.array([-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5], "<f4")
EVEN = [-2, -2, -2, -1, 0, 1, 2, 2, 2]
AWAY = [-3, -2, -2, -1, 0, 1, 2, 2, 3]
ZERO = [-2, -1, -1, -1, 0, 1, 1, 1, 2]

DIRECTML = {"DataType": "FLOAT32", "Sizes": [9]}


def directml(mode: str | int) -> dict[str, Any]:
    return {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {"InputTensor": DIRECTML, "OutputTensor": DIRECTML, "RoundingMode": mode},
    }


def openvino(mode: str) -> dict[str, Any]:
    return {
        "dialect": "openvino",
        "type": "Round",
        "version": "opset5",
        "data": {"mode": mode},
        "input": {"element_type": "f32", "shape": [9]},
    }


ONNX = {
    "dialect": "onnx",
    "op_type": "Round",
    "opset_version": 22,
    "input": {"elem_type": "FLOAT", "shape": [9]},
}


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        pytest.param(ONNX, EVEN, id="onnx"),
        pytest.param(openvino("half_to_even"), EVEN, id="openvino-even"),
        pytest.param(openvino("half_away_from_zero"), AWAY, id="openvino-away"),
        pytest.param(directml("HALVES_TO_NEAREST_EVEN"), EVEN, id="directml-even"),
        pytest.param(directml("DML_ROUNDING_MODE_TOWARD_INFINITY"), AWAY, id="directml-infinity"),
        pytest.param(directml(1), ZERO, id="directml-truncate"),
    ],
)
def test_every_dialect(service: Service, descriptor: dict[str, Any], expected: list[int]) -> None:
    reply = post(service, json.dumps(descriptor), X.tobytes())
    assert reply.status == 200, reply.content
    np.testing.assert_array_equal(np.frombuffer(reply.content, "<f4"), expected)
    assert json.loads(reply.headers["Output-Descriptor"]) == {
        "dtype": "float32",
        "shape": [9],
        "strides": [1],
        "byte_length": 36,
    }
    assert reply.headers["Execution-Backend"] in ("numpy", "cupy")
    assert [part.split(";")[0].strip() for part in reply.headers["Server-Timing"].split(",")] == [
        "receive",
        "queue",
        "execute",
    ]


def test_strides_in_and_out(service: Service) -> None:
    document = {
        "dialect": "ieee754",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": [0, 1]},
        "output": {"dtype": "float32", "shape": [2, 3], "strides": [4, 1], "byte_length": 36},
    }
    reply = post(service, json.dumps(document), X[:3].tobytes())
    assert reply.status == 200, reply.content
    # Row, gap, row, then padding: what no element covers is zero.
    np.testing.assert_array_equal(
        np.frombuffer(reply.content, "<f4"), [-2, -2, -2, 0, -2, -2, -2, 0, 0]
    )


def test_directml_lengths_are_rounded_up_to_4(service: Service) -> None:
    tensor = {"DataType": "FLOAT16", "Sizes": [3]}
    document = directml(0) | {
        "desc": {"InputTensor": tensor, "OutputTensor": tensor, "RoundingMode": 0}
    }
    halves = np.array([0.5, 1.5, -2.5], "<f2").tobytes()
    for payload in (halves, halves + b"\xff\xff"):
        reply = post(service, json.dumps(document), payload)
        assert reply.status == 200, reply.content
        expected = np.array([0, 2, -2, 0], "<f2").tobytes()
        assert reply.content == expected


@pytest.mark.parametrize("shape", [[], [0], [3, 0, 2], [0, 1 << 40]], ids=str)
def test_scalars_and_empty_tensors(service: Service, shape: list[int]) -> None:
    payload = b"" if 0 in shape else X[:1].tobytes()
    reply = post(service, ieee754("float32", shape), payload)
    assert reply.status == 200, reply.content
    assert reply.content == (b"" if 0 in shape else np.float32(-2).tobytes())


def test_curls_default_content_type(service: Service) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    reply = post(service, ieee754("float32", [9]), X.tobytes(), **form)
    assert reply.status == 200


def pieces(payload: bytes, size: int) -> Iterator[bytes]:
    yield from (payload[at : at + size] for at in range(0, len(payload), size))


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_chunked_uploads(service: Service, size: int) -> None:
    x = np.tile(X, 20_000 if size > 7 else 10)
    reply = service.request(
        "POST",
        "/round",
        pieces(x.tobytes(), size),
        {"Operator-Descriptor": ieee754("float32", [x.size]), "Transfer-Encoding": "chunked"},
    )
    assert reply.status == 200, reply.content
    np.testing.assert_array_equal(np.frombuffer(reply.content, "<f4"), np.rint(x))


def test_a_chunked_upload_that_ends_while_its_room_is_awaited(service: Service) -> None:
    x = np.tile(X, 2_000)
    data = x.tobytes()
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", ieee754("float32", [x.size]))
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for piece, end in ((data[:40_000], b""), (data[40_000:], b"0\r\n\r\n")):
            time.sleep(0.1)
            connection.send(b"%x\r\n%b\r\n%b" % (len(piece), piece, end))
        reply = Reply.read(connection)
    assert reply.content == np.rint(x).tobytes()


def two_members(data: bytes) -> bytes:
    return gzip.compress(data[:10]) + gzip.compress(data[10:])


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("gzip", two_members),
        ("deflate", zlib.compress),
    ],
)
def test_content_encodings(service: Service, encoding: str, encode: Any) -> None:
    x = np.tile(X, 100_000)
    payload = encode(x.tobytes())
    reply = post(service, ieee754("float32", [x.size]), payload, Content_Encoding=encoding)
    assert reply.status == 200, reply.content
    np.testing.assert_array_equal(np.frombuffer(reply.content, "<f4"), np.rint(x))


def sha256_field(data: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def test_digests_both_ways(service: Service) -> None:
    digests = {"Content_Digest": sha256_field(X.tobytes()), "Want_Content_Digest": "sha-256=1"}
    reply = post(service, ieee754("float32", [9]), X.tobytes(), **digests)
    assert reply.status == 200
    assert reply.headers["Content-Digest"] == sha256_field(reply.content)


def test_a_digest_is_of_the_bytes_on_the_wire(service: Service) -> None:
    packed = gzip.compress(X.tobytes())
    headers = {"Content_Digest": sha256_field(packed), "Content_Encoding": "gzip"}
    assert post(service, ieee754("float32", [9]), packed, **headers).status == 200


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-123", True), ("a" * 200, False), ("sp ace", False), (None, False)]
)
def test_request_ids(service: Service, given: str | None, kept: bool) -> None:
    headers = {} if given is None else {"X_Request_ID": given}
    reply = post(service, ieee754("float32", [9]), X.tobytes(), **headers)
    assert (reply.headers["X-Request-ID"] == given) is kept
    assert reply.headers["X-Request-ID"]


def test_keep_alive_serves_many_requests_on_one_connection(service: Service) -> None:
    connection = service.connection()
    for count in range(1, 10):
        connection.request(
            "POST",
            "/round",
            X[:count].tobytes(),
            {"Operator-Descriptor": ieee754("float32", [count])},
        )
        response = connection.getresponse()
        assert response.status == 200
        assert response.read() == np.rint(X[:count]).tobytes()
    connection.close()
