"""``POST /compare`` on a real socket: a tensor in three representations, JSON in response."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, patterns
from support.http.native_form import ieee754
from support.services.server import Reply, Service
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import FLOATS

OCTETS, JSON, NPY = "application/octet-stream", "application/json", "application/x-npy"


def post(service: Service, content_type: str, body: bytes, query: str = "", **fields: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    named["Content-Type"] = content_type
    return service.request("POST", f"/compare{query}", body, named)


def octets(service: Service, descriptor: str, body: bytes, **fields: str) -> Reply:
    return post(service, OCTETS, body, Operator_Descriptor=descriptor, **fields)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def differences(reply: Reply) -> tr.Differences:
    assert reply.status == 200, reply.content
    assert reply.headers["Content-Type"] == JSON
    return tr.Differences.from_data(reply.json())


@pytest.mark.parametrize("dtype", BY_NAME)
def test_a_tensor_of_every_dtype(service: Service, dtype: str) -> None:
    x = patterns(dtype, 600).reshape(20, 30)
    reply = octets(service, ieee754(dtype, [20, 30]), x.tobytes())
    assert differences(reply) == tr.compare(x)
    assert reply.headers["Execution-Backend"] == "numpy"
    assert reply.headers["Server-Timing"].startswith("receive;dur=")
    assert reply.headers["X-Request-ID"]
    kind = f"?dtype={dtype}" if "float8" in dtype or dtype == "bfloat16" else ""
    if dtype != "float8_e5m2":  # NumPy writes no file of it that it can read
        assert differences(post(service, NPY, npy(x), kind)) == tr.compare(x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bfloat16"])
def test_numbers_in_json(service: Service, dtype: str) -> None:
    x = np.array([[-2.5, -0.0, 0.5], [3, 4, 5]]).astype(BY_NAME[dtype].numpy)
    data = x.tolist() if dtype in FLOATS else [[int(n) for n in row] for row in x]
    document = {"descriptor": json.loads(ieee754(dtype, [2, 3])), "data": data}
    assert differences(post(service, JSON, json.dumps(document).encode())) == tr.compare(x)


def test_files_in_either_order_and_byte_order(service: Service) -> None:
    x = patterns("float32", 600).reshape(20, 30)
    swapped = bits(x).astype(">u4").view(">f4")
    for file in (npy(np.asfortranarray(x)), npy(swapped), npy(np.asfortranarray(swapped))):
        assert differences(post(service, NPY, file)) == tr.compare(x)


DESCRIPTORS = {
    "onnx": '{"dialect":"onnx","op_type":"Round","opset_version":22,'
    '"input":{"elem_type":"FLOAT16","shape":[3]}}',
    "directml-unrounded-length": '{"dialect":"directml","feature_level":"3_0",'
    '"type":"DML_OPERATOR_ELEMENT_WISE_ROUND","desc":{"InputTensor":{"DataType":"FLOAT16",'
    '"Sizes":[3]},"OutputTensor":{"DataType":"FLOAT16","Sizes":[3]},"RoundingMode":"TOWARD_ZERO"}}',
    "transposed": ieee754("float16", [3, 1], strides=[1, 3]),
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_descriptor_of_any_dialect_says_what_the_tensor_is(service: Service, name: str) -> None:
    x = np.array([0.5, 1.5, -0.3], np.float16)
    found = differences(octets(service, DESCRIPTORS[name], x.tobytes()))
    assert found == tr.compare(x.reshape(found.shape))


def test_chunked_gzip_and_digest(service: Service) -> None:
    x = patterns("float64", 3000)
    packed = gzip.compress(x.tobytes())
    digest = base64.b64encode(hashlib.sha256(packed).digest()).decode()
    fields = {
        "Content_Encoding": "gzip",
        "Content_Digest": f"sha-256=:{digest}:",
        "Want_Content_Digest": "sha-256=1",
        "X_Request_ID": "mine",
    }
    reply = octets(service, ieee754("float64", [3000]), packed, **fields)
    assert differences(reply) == tr.compare(x)
    sent = base64.b64encode(hashlib.sha256(reply.content).digest()).decode()
    assert reply.headers["Content-Digest"] == f"sha-256=:{sent}:"
    assert reply.headers["X-Request-ID"] == "mine"


X4 = ieee754("float32", [4])
ZEROS = bytes(16)
REFUSED: dict[str, tuple[str, bytes, str, dict[str, str], int, str, str]] = {
    "no-descriptor": (OCTETS, ZEROS, "", {}, 400, "missing_descriptor", "Operator-Descriptor"),
    "short": (
        *(OCTETS, bytes(12), "", {"Operator-Descriptor": X4}),
        *(400, "payload_size_mismatch", "must have 16 bytes for this descriptor, got 12"),
    ),
    "query": (
        *(OCTETS, ZEROS, "?rounding=toward_zero", {"Operator-Descriptor": X4}),
        *(422, "invalid_descriptor", "unknown parameter"),
    ),
    "gaps": (
        *(OCTETS, bytes(28), "", {"Operator-Descriptor": ieee754("float32", [4], strides=[2])}),
        *(422, "invalid_descriptor", "no gaps and no repeated elements"),
    ),
    "repeated": (
        *(OCTETS, bytes(4), "", {"Operator-Descriptor": ieee754("float32", [4], strides=[0])}),
        *(422, "invalid_descriptor", "no gaps and no repeated elements"),
    ),
    "dtype": (
        *(OCTETS, ZEROS, "", {"Operator-Descriptor": ieee754("float31", [4])}),
        *(422, "invalid_descriptor", "float16, bfloat16"),
    ),
    "too-large": (
        *(OCTETS, b"", "", {"Operator-Descriptor": ieee754("float32", [1 << 40])}),
        *(413, "tensor_too_large", "the input tensor has"),
    ),
    "long-descriptor": (
        *(OCTETS, ZEROS, "", {"Operator-Descriptor": X4.replace(" ", " " * (16 << 10), 1)}),
        *(431, "headers_too_large", "Operator-Descriptor has more than"),
    ),
    "media-type": ("text/plain", ZEROS, "", {}, 415, "unsupported_media_type", "text/plain"),
    "json": (JSON, b"{", "", {}, 400, "malformed_json", "not JSON"),
    "npy": (NPY, b"no such thing", "", {}, 400, "malformed_npy", "magic bytes"),
    "npy-cut": (NPY, npy(np.zeros(4))[:-1], "", {}, 400, "payload_size_mismatch", "got"),
    "npy-raw": (
        *(NPY, npy(np.ones(3, ml_dtypes.bfloat16)), "", {}),
        *(415, "unsupported_media_type", "?dtype="),
    ),
    "npy-operator": (
        *(NPY, npy(np.zeros(4)), "?operator=onnx", {}),
        *(422, "invalid_descriptor", "representation are dtype"),
    ),
    "npy-rank": (
        *(NPY, npy(np.zeros((1,) * 33)), "", {}),
        *(422, "invalid_descriptor", "32"),
    ),
}


@pytest.mark.parametrize(
    ("kind", "body", "query", "fields", "status", "code", "why"), REFUSED.values(), ids=REFUSED
)
def test_refusals(
    service: Service,
    kind: str,
    body: bytes,
    query: str,
    fields: dict[str, str],
    status: int,
    code: str,
    why: str,
) -> None:
    reply = post(service, kind, body, query, **fields)
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert (reply.status, problem["status"], problem["code"]) == (status, status, code)
    assert why in json.dumps(problem)


def test_it_takes_post_alone(service: Service) -> None:
    reply = service.get("/compare")
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    assert service.get("/").json()["links"]["compare"] == "/compare"
    assert "Differences" in service.get("/openapi.json").json()["components"]["schemas"]


def test_it_asks_for_a_key_where_there_are_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(hashlib.sha256(b"secret").hexdigest() + "\n")
    with Service("--api-keys-file", str(keys)) as locked:
        assert octets(locked, X4, ZEROS).json()["code"] == "unauthorized"
        assert octets(locked, X4, ZEROS, Authorization="Bearer secret").status == 200


def test_it_keeps_to_the_budget_and_gives_back() -> None:
    with Service("--max-bytes-in-flight", "16MiB", "--max-tensor-bytes", "12MiB") as small:
        many = ieee754("float32", [3 << 20])
        for _ in range(4):
            reply = octets(small, many, bytes(12 << 20))
            assert (reply.status, reply.json()["code"]) == (413, "tensor_too_large")
            assert octets(small, ieee754("float32", [1 << 20]), bytes(4 << 20)).status == 200
