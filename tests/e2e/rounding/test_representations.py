"""What is peculiar to octets, .npy and JSON on a real socket: ``/round``, and then ``/compare``."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
import zlib
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, patterns
from support.http.native_form import ieee754, npy, post, sha256_field
from support.services.server import Reply, Service
from tensor_round.contract.cast_digests import CAST_DIGESTS
from tensor_round.contract.dtypes import BY_NAME, DTYPES, ROUNDABLE
from tensor_round.contract.quantization_digests import published
from tensor_round.contract.wire import http_fields
from tensor_round_verify import FLOATS, reference
from tensor_round_verify.patterns import samples

X = np.array([-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5], "<f4")
MANY = np.tile(X, 20_000)


def test_response_states_layout_backend_and_times(service: Service) -> None:
    reply = post(service, ieee754("float32", [9]), X.tobytes())
    assert json.loads(reply.headers["Output-Descriptor"]) == {
        "dtype": "float32",
        "shape": [9],
        "strides": [1],
        "byte_length": 36,
    }
    assert reply.headers["Execution-Backend"] in ("numpy", "cupy")
    times = [part.split(";")[0].strip() for part in reply.headers["Server-Timing"].split(",")]
    assert times == ["receive", "queue", "execute"]


def test_descriptor_may_have_16_kib(service: Service) -> None:
    descriptor = ieee754("float32", [9])
    spaces = " " * (http_fields.MAX_DESCRIPTOR_LENGTH - len(descriptor))
    assert post(service, descriptor[:-1] + spaces + descriptor[-1], X.tobytes()).status == 200


def test_curls_default_content_type_is_that_of_octets(service: Service) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert post(service, ieee754("float32", [9]), X.tobytes(), **form).status == 200


def test_shape_without_elements_may_have_any_other_size(service: Service) -> None:
    assert post(service, ieee754("float32", [0, 1 << 40]), b"").content == b""


@pytest.mark.parametrize("size", [1, 7, 50_000, 1_000_000])
def test_chunked_body_is_received(service: Service, size: int) -> None:
    x = MANY if size > 7 else X
    pieces = (x.tobytes()[at : at + size] for at in range(0, x.nbytes, size))
    fields = {"Operator-Descriptor": ieee754("float32", [x.size]), "Transfer-Encoding": "chunked"}
    reply = service.request("POST", "/round", pieces, fields)
    assert reply.content == np.rint(x).tobytes()


def test_chunked_body_may_end_while_its_memory_is_awaited(service: Service) -> None:
    x = MANY[:18_000]
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", ieee754("float32", [x.size]))
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for piece, end in ((x.tobytes()[:40_000], b""), (x.tobytes()[40_000:], b"0\r\n\r\n")):
            time.sleep(0.1)
            connection.send(b"%x\r\n%b\r\n%b" % (len(piece), piece, end))
        assert Reply.read(connection).content == np.rint(x).tobytes()


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("identity", bytes), ("GZIP", gzip.compress), ("deflate", zlib.compress)],
)
def test_content_encoding_is_undone(service: Service, encoding: str, encode: Any) -> None:
    payload = encode(MANY.tobytes())
    reply = post(service, ieee754("float32", [MANY.size]), payload, Content_Encoding=encoding)
    assert reply.content == np.rint(MANY).tobytes()


def test_digests_are_of_the_bytes_on_the_wire(service: Service) -> None:
    packed = gzip.compress(X.tobytes())
    for body, fields in ((X.tobytes(), {}), (packed, {"Content_Encoding": "gzip"})):
        fields |= {"Content_Digest": sha256_field(body), "Want_Content_Digest": "sha-256=1"}
        reply = post(service, ieee754("float32", [9]), body, **fields)
        assert reply.status == 200
        assert reply.headers["Content-Digest"] == sha256_field(reply.content)


def post_npy(service: Service, payload: bytes, query: str = "") -> Reply:
    return service.request("POST", f"/round{query}", payload, {"Content-Type": "application/x-npy"})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "float8_e4m3fn"])
@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("order", "CF")
def test_npy_comes_back_in_its_own_order_and_byte_order(
    service: Service, dtype: str, byte_order: str, order: Any
) -> None:
    patterns = samples(dtype, 4096)
    patterns = patterns[: patterns.size // 6 * 6].reshape(2, 3, -1)
    array = np.asarray(patterns.view(BY_NAME[dtype].numpy), order=order)
    if byte_order == ">":
        # Swapped as bits: NumPy would quiet signalling NaNs on its way through values.
        swapped = array.view(patterns.dtype).byteswap()
        array = swapped.view(BY_NAME[dtype].numpy.newbyteorder(">"))
    sent = npy(array)
    kind = f"&dtype={dtype}" if dtype in ("bfloat16", "float8_e4m3fn") else ""
    reply = post_npy(service, sent, f"?rounding=ties_to_away{kind}")
    assert reply.headers["Content-Type"] == "application/x-npy"
    header = len(sent) - array.nbytes
    assert reply.content[:header] == sent[:header]
    response = np.frombuffer(reply.content, patterns.dtype, offset=header)
    if byte_order == ">":
        response = response.byteswap()
    expected = reference.rounded(patterns, dtype, "ties_to_away")
    np.testing.assert_array_equal(response.reshape(patterns.shape, order=order), expected)


def post_json(service: Service, descriptor: str, data: bytes) -> Reply:
    document = b'{"descriptor":%b,"data":%b}' % (descriptor.encode(), data)
    reply = service.request("POST", "/round", document, {"Content-Type": "application/json"})
    assert reply.status == 200, reply.content
    return reply


def test_json_is_nested_or_flat(service: Service) -> None:
    for data in (b"[[0.5,1.5,-0.3],[2.5,1e30,-2.5]]", b"[0.5,1.5,-0.3,2.5,1e30,-2.5]"):
        reply = post_json(service, ieee754("float64", [2, 3]), data)
        assert reply.json() == {
            "output": {"dtype": "float64", "shape": [2, 3]},
            "data": [[0, 2, 0], [2, 1e30, -2]],
        }
        assert b"-0.0" in reply.content


def test_json_has_tokens_or_strings_for_nan_and_infinity(service: Service) -> None:
    for data in (b'["NaN","Infinity","-Infinity",-0]', b"[NaN,Infinity,-Infinity,-0.0]"):
        reply = post_json(service, ieee754("float16", [4]), data)
        assert reply.json()["data"] == ["NaN", "Infinity", "-Infinity", 0.0]
        assert b"-0.0" in reply.content


def test_conformance_digests_are_the_published_ones(service: Service) -> None:
    report = service.get("/conformance").json()
    assert report["conforms"] is True
    (backend,) = report["backends"].values()
    small = [dtype for dtype in ROUNDABLE if dtype.width <= 16]
    assert sum(len(row) for row in backend.values()) == len(small) * 5
    asked = service.get("/conformance?operator=cast&dtype=bfloat16&to=float8_e4m3fn").json()
    cell = {"sha256": CAST_DIGESTS["bfloat16", "float8_e4m3fn"], "matches_published": True}
    table = {"bfloat16": {"float8_e4m3fn": cell}}
    assert asked == {**report, "casts": dict.fromkeys(report["backends"], table)}
    asked = service.get("/conformance?operator=quantize&dtype=bfloat16&to=uint4").json()
    cell = {"sha256": published("quantize")["bfloat16", "uint4"], "matches_published": True}
    (quantizations,) = asked["quantizations"].values()
    assert quantizations == {"bfloat16": {"uint4": cell}}
    (casts,) = service.get("/conformance?operator=cast&to=int4").json()["casts"].values()
    assert list(casts) == [d.name for d in DTYPES if d.width <= 16 and d.name != "int4"]


@pytest.mark.parametrize(
    ("query", "field", "why"),
    [
        ("operator=floor", "operator", "accepted: round, cast"),
        ("dtypes=int8", "dtypes", "unknown parameter"),
        ("dtype=float16", "dtype", "only with operator=cast"),
        ("operator=round&to=int8", "to", "only with operator=cast"),
        ("operator=cast&dtype=float32", "dtype", 'got "float32"'),
        ("operator=cast&to=bfloat", "to", "did you mean bfloat16"),
        ("operator=cast&dtype=int8&to=int8", "to", "must differ from dtype"),
        ("operator=quantize&dtype=float32", "dtype", "accepted: float16, bfloat16"),
    ],
)
def test_conformance_of_what_has_no_digest_is_refused(
    service: Service, query: str, field: str, why: str
) -> None:
    refused = service.get(f"/conformance?{query}")
    assert (refused.status, refused.json()["code"]) == (422, "invalid_descriptor")
    (fault,) = refused.json()["errors"]
    assert fault["loc"][-1] == field
    assert why in fault["msg"]


OCTETS, JSON, NPY = "application/octet-stream", "application/json", "application/x-npy"


def compare(
    service: Service, content_type: str, body: bytes, query: str = "", **fields: str
) -> Reply:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    named["Content-Type"] = content_type
    return service.request("POST", f"/compare{query}", body, named)


def octets(service: Service, descriptor: str, body: bytes, **fields: str) -> Reply:
    return compare(service, OCTETS, body, Operator_Descriptor=descriptor, **fields)


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
        assert differences(compare(service, NPY, file, kind)) == tr.compare(x)
    x = np.array([[-2.5, -0.0, 0.5], [3, 4, 5]]).astype(BY_NAME[dtype].numpy)
    data = x.tolist() if dtype in FLOATS else [[int(n) for n in row] for row in x]
    document = {"descriptor": json.loads(ieee754(dtype, [2, 3])), "data": data}
    assert differences(compare(service, JSON, json.dumps(document).encode())) == tr.compare(x)


def test_compared_file_may_have_the_other_byte_order(service: Service) -> None:
    x = patterns("float32", 600)
    assert differences(compare(service, NPY, npy(bits(x).astype(">u4").view(">f4")))) == tr.compare(
        x
    )


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


def test_gzip_and_digests_of_compare_are_as_for_round(service: Service) -> None:
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
def test_refusal_of_compare_names_its_rule(service: Service, case: Any) -> None:
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
