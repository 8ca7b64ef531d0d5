"""Every refusal of the native form on a real socket: its status, code and rule; then a good one."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
from typing import Any

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Reply, Service

GOOD = ieee754("float32", [2])
BODY = np.array([0.5, 1.5], "<f4").tobytes()
OCTETS = {"Content-Type": "application/octet-stream"}
NPY = {"Content-Type": "application/x-npy"}


def directml_2_1(sizes: list[int]) -> str:
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "RoundingMode": 0}
    return json.dumps(
        {
            "dialect": "directml",
            "feature_level": "2_1",
            "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
            "desc": desc,
        }
    )


def npy_file(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def headers(descriptor: str = GOOD, **more: str) -> dict[str, str]:
    fields = {name.replace("_", "-"): value for name, value in more.items()}
    return {**OCTETS, "Operator-Descriptor": descriptor, **fields}


CASES = [
    ("no-descriptor", OCTETS, BODY, 400, "missing_descriptor", "Operator-Descriptor"),
    ("nothing-said", {}, BODY, 400, "missing_descriptor", "Operator-Descriptor"),
    ("form", {"Content-Type": "application/x-www-form-urlencoded"}, BODY, 415,
     "unsupported_media_type", "application/x-npy"),
    ("text", {"Content-Type": "text/plain"}, BODY, 415, "unsupported_media_type",
     "octet-stream with the header Operator-Descriptor, application/json or application/x-npy, "
     'got "text/plain"'),
    # As HTTPie sends a file: the operator in the header was lost, or contradicted the body's.
    ("json-beside-a-descriptor", headers(Content_Type="application/json"), BODY, 415,
     "unsupported_media_type", "must be application/octet-stream, got application/json"),
    ("npy-beside-a-descriptor", headers(Content_Type="application/x-npy"), saved(np.ones(2, "f4")),
     415, "unsupported_media_type", "with the header Operator-Descriptor"),
    ("json-without", {"Content-Type": "application/json"}, b'{"data": 1}', 400,
     "missing_descriptor", "the member descriptor is missing"),
    ("not-json", headers("{"), BODY, 400, "malformed_json", "JSON"),
    ("not-utf-8", headers('{"dialect":"\xff"}'), BODY, 400, "malformed_json", "UTF-8"),
    ("deep", headers("[" * 5000), BODY, 400, "malformed_json", "nest"),
    ("key-twice", headers('{"dialect":"onnx","dialect":"ieee754"}'), BODY, 400,
     "malformed_json", "twice"),
    ("no-object", headers("7"), BODY, 422, "invalid_descriptor", "dialect"),
    ("unknown-dialect", headers('{"dialect":"torch"}'), BODY, 422, "invalid_descriptor", "onnx"),
    ("unknown-field", headers(GOOD[:-1] + ',"axis":1}'), BODY, 422, "invalid_descriptor", "axis"),
    ("coerced", headers(ieee754("float32", ["2"])), BODY, 422, "invalid_descriptor", "integer"),
    ("rank-3-to-2_1", headers(directml_2_1([1, 1, 2])), BODY, 422, "invalid_descriptor",
     "directml 2_1: ELEMENT_WISE_ROUND takes exactly 4 dimensions, got 3"),
    ("descriptor-too-long", headers(GOOD[:-1] + " " * (16 << 10) + "}"), BODY,
     431, "headers_too_large", "16384"),
    ("short", headers(), BODY[:-1], 400, "payload_size_mismatch", "8"),
    ("long", headers(), BODY + b"x", 400, "payload_size_mismatch", "8"),
    ("empty", headers(), b"", 400, "payload_size_mismatch", "8"),
    ("too-large", headers(ieee754("float32", [1 << 31])), b"", 413, "tensor_too_large", "limit"),
    ("overflowing", headers(ieee754("float32", [1 << 32, 1 << 32])), b"", 413,
     "tensor_too_large", "limit"),
    ("amplifying", headers(ieee754("float32", [1 << 40], strides=[0])), BODY[:4], 413,
     "tensor_too_large", "output"),
    ("encoding", headers(Content_Encoding="br"), BODY, 415, "unsupported_encoding",
     'identity, gzip or deflate, got \'br\''),
    ("not-gzip", headers(Content_Encoding="gzip"), BODY, 400, "malformed_encoding", "decode"),
    ("cut-gzip", headers(Content_Encoding="gzip"), gzip.compress(BODY)[:-4], 400,
     "malformed_encoding", "ends"),
    ("bomb", headers(Content_Encoding="gzip"), gzip.compress(bytes(64 << 20), 1), 400,
     "payload_size_mismatch", "8"),
    ("digest", headers(Content_Digest=f"sha-256=:{'A' * 43}=:"), BODY, 400, "digest_mismatch",
     "SHA-256"),
    ("no-digest", headers(Content_Digest="sha-256=:AA==:"), BODY, 400, "digest_mismatch", "32"),
    ("no-npy", NPY, b"hello", 400, "malformed_npy", "magic"),
    ("npz", NPY, b"PK\x03\x04" + bytes(99), 400, "malformed_npy", "an archive of arrays (.npz)"),
    ("empty-npy", NPY, b"", 400, "malformed_npy", "header"),
    ("short-npy", NPY, saved(np.ones(3, "f4"))[:-1], 400, "payload_size_mismatch", "140"),
    ("long-npy", NPY, saved(np.ones(3, "f4")) + b"x", 400, "payload_size_mismatch", "140"),
    ("huge-npy", NPY,
     npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
     413, "tensor_too_large", "limit"),
    ("pickled-npy", NPY, saved(np.array([{}], object)), 415, "unsupported_media_type", "O"),
    ("void-npy", NPY, npy_file("{'descr': '|V0', 'fortran_order': False, 'shape': (9,), }"),
     415, "unsupported_media_type", "V0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "body", "status", "code", "says"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_refusals(
    service: Service, fields: dict[str, str], body: bytes, status: int, code: str, says: str
) -> None:
    reply = service.request("POST", "/round", body, fields)
    assert (reply.status, problem_code(reply)) == (status, code), reply.content
    assert says in reply.json()["detail"]
    assert post(service, GOOD, BODY).status == 200


def problem_code(reply: Reply) -> str:
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["X-Request-ID"]
    document = reply.json()
    assert {"type", "title", "status", "detail", "code"} <= set(document)
    assert document.get("errors") != []
    assert document["status"] == reply.status
    code = document["code"]
    assert isinstance(code, str)
    return code


def test_two_descriptors(service: Service) -> None:
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Content-Length", str(len(BODY)))
        connection.endheaders(BODY)
        assert problem_code(Reply.read(connection)) == "duplicate_descriptor"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/round?rounding=up", "ties_to_even"),
        ("/round?rounding=toward_zero&rounding=toward_zero", "more than once"),
        ("/round?mode=x", "unknown"),
        ("/round?dtype=f4", "float32"),
    ],
)
def test_npy_queries(service: Service, path: str, says: str) -> None:
    reply = service.request("POST", path, saved(np.ones(3, "f4")), NPY)
    assert problem_code(reply) == "invalid_descriptor"
    assert says in reply.json()["detail"]


def test_a_query_beside_a_descriptor_is_not_lost_silently(service: Service) -> None:
    reply = service.request("POST", "/round?rounding=toward_zero", BODY, headers())
    assert problem_code(reply) == "invalid_descriptor"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("POST", "/round/", 404, "not_found"),
        ("GET", "/round", 405, "method_not_allowed"),
        ("POST", "/livez", 405, "method_not_allowed"),
        ("PUT", "/operators", 405, "method_not_allowed"),
    ],
)
def test_paths_and_methods(
    service: Service, method: str, path: str, status: int, code: str
) -> None:
    reply = service.request(method, path)
    assert (reply.status, problem_code(reply)) == (status, code)


@pytest.mark.not_behind("nginx", reason="it has a limit of its own, or waits for the body")
@pytest.mark.parametrize("declared", [1, 10 << 30])
def test_a_refusal_does_not_wait_for_the_body(service: Service, declared: int) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Content-Length", str(declared))
        connection.endheaders()
        assert problem_code(Reply.read(connection)) == "payload_size_mismatch"


@pytest.mark.not_behind("nginx-buffering", reason="it gives 502 for some, as docs/deploy.md says")
def test_a_refused_sender_of_much_reads_why(service: Service) -> None:
    reply = post(service, GOOD, bytes(64 << 20))
    assert (reply.status, problem_code(reply)) == (400, "payload_size_mismatch")


def expecting(service: Service, descriptor: str) -> bytes:
    """What the service says to headers that expect 100-continue, before any body."""
    with contextlib.closing(service.connect(timeout=20)) as plug:
        plug.sendall(
            b"POST /round HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 8\r\n"
            b"Operator-Descriptor: " + descriptor.encode() + b"\r\n\r\n"
        )
        first = plug.recv(65536)
        if first.startswith(b"HTTP/1.1 100"):
            plug.sendall(BODY)
            first += plug.recv(65536)
        return first


@pytest.mark.not_behind("nginx", reason="it says 100 Continue by itself")
def test_expect_100_continue(service: Service) -> None:
    assert expecting(service, GOOD).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert expecting(service, "{}").startswith(b"HTTP/1.1 422")


def test_errors_echo_nothing_of_the_payload(service: Service) -> None:
    secret = b"SECRETSECRET"
    for reply in (
        service.request("POST", "/round", secret, NPY),
        post(service, GOOD, secret),
        service.request("POST", "/round", secret, {"Content-Type": "application/json"}),
    ):
        assert b"SECRET" not in reply.content
        assert reply.status == 400
