"""``POST /compare`` on a real socket: a tensor in three representations, JSON in response."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, patterns
from support.http.native_form import ieee754, npy, sha256_field
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


def differences(reply: Reply) -> tr.Differences:
    assert reply.status == 200, reply.content
    assert reply.headers["Content-Type"] == JSON
    return tr.Differences.from_data(reply.json())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bfloat16", "float8_e4m3fn"])
def test_differences_are_the_same_in_every_representation(service: Service, dtype: str) -> None:
    x = patterns(dtype, 600).reshape(20, 30)
    reply = octets(service, ieee754(dtype, [20, 30]), x.tobytes())
    assert differences(reply) == tr.compare(x)
    assert reply.headers["Execution-Backend"] == "numpy"
    assert reply.headers["Server-Timing"].startswith("receive;dur=")
    assert reply.headers["X-Request-ID"]
    kind = f"?dtype={dtype}" if "float8" in dtype or dtype == "bfloat16" else ""
    for file in (npy(x), npy(np.asfortranarray(x))):
        assert differences(post(service, NPY, file, kind)) == tr.compare(x)
    x = np.array([[-2.5, -0.0, 0.5], [3, 4, 5]]).astype(BY_NAME[dtype].numpy)
    data = x.tolist() if dtype in FLOATS else [[int(n) for n in row] for row in x]
    document = {"descriptor": json.loads(ieee754(dtype, [2, 3])), "data": data}
    assert differences(post(service, JSON, json.dumps(document).encode())) == tr.compare(x)


def test_file_may_have_the_other_byte_order(service: Service) -> None:
    x = patterns("float32", 600)
    assert differences(post(service, NPY, npy(bits(x).astype(">u4").view(">f4")))) == tr.compare(x)


DESCRIPTORS = {
    "onnx": '{"dialect":"onnx","op_type":"Round","opset_version":22,'
    '"input":{"elem_type":"FLOAT16","shape":[3]}}',
    "directml-unrounded-length": '{"dialect":"directml","feature_level":"3_0",'
    '"type":"DML_OPERATOR_ELEMENT_WISE_ROUND","desc":{"InputTensor":{"DataType":"FLOAT16",'
    '"Sizes":[3]},"OutputTensor":{"DataType":"FLOAT16","Sizes":[3]},"RoundingMode":"TOWARD_ZERO"}}',
    "transposed": ieee754("float16", [3, 1], strides=[1, 3]),
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_descriptor_of_any_dialect_describes_the_tensor(service: Service, name: str) -> None:
    x = np.array([0.5, 1.5, -0.3], np.float16)
    found = differences(octets(service, DESCRIPTORS[name], x.tobytes()))
    assert found == tr.compare(x.reshape(found.shape))


def test_gzip_and_digests_are_as_for_round(service: Service) -> None:
    x = patterns("float64", 3000)
    packed = gzip.compress(x.tobytes())
    fields = {
        "Content_Encoding": "gzip",
        "Content_Digest": sha256_field(packed),
        "Want_Content_Digest": "sha-256=1",
        "X_Request_ID": "mine",
    }
    reply = octets(service, ieee754("float64", [3000]), packed, **fields)
    assert differences(reply) == tr.compare(x)
    assert reply.headers["Content-Digest"] == sha256_field(reply.content)
    assert reply.headers["X-Request-ID"] == "mine"


X4 = ieee754("float32", [4])
FIELD = {"Operator-Descriptor": X4, "Content-Type": OCTETS}
PACKED = "no gaps and no repeated elements"
#: Query, fields and body, and why they are refused; others are refused as by `/round`.
REFUSED: dict[str, tuple[str, dict[str, str], bytes, str]] = {
    "query": ("?rounding=toward_zero", FIELD, bytes(16), "unknown parameter"),
    "operator": ("?operator=onnx", {"Content-Type": NPY}, npy(np.zeros(4)), "accepted: dtype"),
    **{
        name: (
            "",
            {**FIELD, "Operator-Descriptor": ieee754("float32", [4], strides=[stride])},
            bytes(length),
            PACKED,
        )
        for name, stride, length in (("gaps", 2, 28), ("repeated", 0, 4))
    },
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusal_names_its_rule(service: Service, case: Any) -> None:
    query, fields, body, why = case
    reply = service.request("POST", f"/compare{query}", body, fields)
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert (reply.status, problem["code"]) == (422, "invalid_descriptor")
    assert why in problem["detail"]


def test_compare_keeps_to_the_budget_and_gives_it_back() -> None:
    with Service("--max-bytes-in-flight", "16MiB", "--max-tensor-bytes", "12MiB") as small:
        many = ieee754("float32", [3 << 20])
        for _ in range(4):
            reply = octets(small, many, bytes(12 << 20))
            assert (reply.status, reply.json()["code"]) == (413, "tensor_too_large")
            assert octets(small, ieee754("float32", [1 << 20]), bytes(4 << 20)).status == 200
