"""Every refusal of ``/round`` on a real socket: status, code and rule, and nothing of the payload.

A good request follows each.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round_service
from support.http.inference_form import document, error_of, infer_path, tensor
from support.http.native_form import ieee754, npy, post
from support.keys import needing
from support.services.server import Reply, Service
from tensor_round.contract.errors import problem
from tensor_round_service.oip.operations import REFUSALS
from tensor_round_service.openapi.errors import EXAMPLES

#: What every payload has in it, and no response.
MARK = "kryptonite"
BODY = MARK.encode().ljust(16)
GOOD = ieee754("float32", [4])
JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}
#: Of the inside, which no response tells.
_INTERNAL = re.compile(
    r"Traceback|\bline \d+, in |0x[0-9a-f]{6,}|\.py\b|site-packages|tensor_round(_service)?\.|"
    r"<class|object at|pydantic|numpy\.|starlette|fastapi|uvicorn|errors\.pydantic\.dev|"
    + re.escape(str(Path(tensor_round_service.__file__).parents[2])),
    re.I,
)
Fields = dict[str, str]
#: Query, fields and body; status, code, and a part of the detail.
Case = tuple[str, Fields, bytes, int, str, str]


def headers(descriptor: str = GOOD, **more: str) -> Fields:
    fields = {name.replace("_", "-"): value for name, value in more.items()}
    return {
        "Content-Type": "application/octet-stream",
        "Operator-Descriptor": descriptor,
        **fields,
    }


def octets(fields: Fields, body: bytes, status: int, code: str, says: str) -> Case:
    return "", fields, body, status, code, says


def invalid(descriptor: str, says: str) -> Case:
    return "", headers(descriptor), BODY, 422, "invalid_descriptor", says


def in_json(text: str | bytes, status: int, code: str, says: str) -> Case:
    return "", JSON, text if isinstance(text, bytes) else text.encode(), status, code, says


def numbers(dtype: str, shape: list[int], data: Any, **more: Any) -> str:
    """A body in JSON."""
    layout = {"dtype": dtype, "shape": shape}
    return json.dumps({"descriptor": {"dialect": "ieee754", "input": layout}, "data": data, **more})


def npy_file(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


F4 = npy(np.ones(3, "f4"))
TYPES = (
    "; accepted: application/octet-stream with the header Operator-Descriptor, application/json, "
    "application/x-npy"
)
CASES: dict[str, Case] = {
    "no descriptor": octets({"Content-Type": "application/octet-stream"}, BODY, 400,
                            "missing_descriptor", "Operator-Descriptor"),
    "nothing said": octets({}, BODY, 400, "missing_descriptor", "Operator-Descriptor"),
    "form": octets({"Content-Type": "application/x-www-form-urlencoded"}, BODY, 415,
                   "unsupported_media_type", "application/x-npy"),
    "text": octets({"Content-Type": "text/plain"}, BODY, 415, "unsupported_media_type",
                   'Content-Type: got "text/plain"' + TYPES),
    # As HTTPie sends a file: the operator in the header was lost, or contradicted the body's.
    "json beside a descriptor": octets(headers(Content_Type="application/json"), BODY, 415,
                                       "unsupported_media_type", "must be application/octet-stream,"
                                       " got application/json"),
    "npy beside a descriptor": octets(headers(Content_Type="application/x-npy"), F4, 415,
                                      "unsupported_media_type", "the header Operator-Descriptor"),
    "descriptor: no json": octets(headers("{"), BODY, 400, "malformed_json", "JSON"),
    "descriptor: no utf-8": octets(headers('{"dialect":"\xff"}'), BODY, 400, "malformed_json",
                                   "UTF-8"),
    "descriptor: long": octets(headers(GOOD[:-1] + " " * (16 << 10) + "}"), BODY, 431,
                               "headers_too_large", "16384"),
    "descriptor: a number": invalid("7", "dialect"),
    "query beside a descriptor": ("?rounding=toward_zero", headers(), BODY, 422,
                                  "invalid_descriptor", "unknown parameter"),
    "short": octets(headers(), BODY[:12], 400, "payload_size_mismatch", "16 bytes"),
    "long": octets(headers(), BODY + b"x", 400, "payload_size_mismatch", "16 bytes"),
    "too large": octets(headers(ieee754("float32", [1 << 31])), BODY, 413, "tensor_too_large",
                        "limit"),
    "amplifying": octets(headers(ieee754("float32", [1 << 40], strides=[0])), BODY[:4], 413,
                         "tensor_too_large", "output"),
    "encoding": octets(headers(Content_Encoding="br"), BODY, 415, "unsupported_encoding",
                       'identity, gzip or deflate, got "br"'),
    "cut gzip": octets(headers(Content_Encoding="gzip"), gzip.compress(BODY)[:-4], 400,
                       "malformed_encoding", "ends"),
    "bomb": octets(headers(Content_Encoding="gzip"), gzip.compress(bytes(64 << 20), 1), 400,
                   "payload_size_mismatch", "16"),
    "digest": octets(headers(Content_Digest=f"sha-256=:{'A' * 43}=:"), BODY, 400,
                     "digest_mismatch", "SHA-256"),
    "digest of sha-512": octets(headers(Content_Digest=f"sha-512=:{'A' * 86}==:"), BODY, 400,
                                "digest_mismatch", "SHA-512"),
    "no digest": octets(headers(Content_Digest="sha-256=:AA==:"), BODY, 400, "digest_mismatch",
                        "32"),
    "npy: none": ("", NPY, BODY, 400, "malformed_npy", "magic"),
    "npy: its header": ("", NPY, b"\x93NUMPY\x01\x00\x0c\x00" + BODY[:11] + b"\n", 400,
                        "malformed_npy", "header"),
    "npy: short": ("", NPY, F4[:-1], 400, "payload_size_mismatch", "140"),
    "npy: huge": ("", NPY, npy_file("{'descr': '<f4', 'fortran_order': False, "
                                    "'shape': (4294967296, 4294967296), }"), 413,
                  "tensor_too_large", "limit"),
    "npy: pickled": ("", NPY, npy(np.array([{}], object)), 415, "unsupported_media_type", "O"),
    "npy: direction": ("?rounding=up", NPY, F4, 422, "invalid_descriptor",
                       'query.rounding: got "up"; did you mean'),
    "npy: unknown parameter": ("?mode=x", NPY, F4, 422, "invalid_descriptor", "unknown"),
    "npy: operator and direction": ("?operator=onnx&rounding=floor", NPY, F4, 422,
                                    "invalid_descriptor", "combined"),
    "npy: operator twice": ("?operator=onnx&operator=onnx", NPY, F4, 422, "invalid_descriptor",
                            "more than once"),
    "json: none": in_json(MARK, 400, "malformed_json", "JSON"),
    "json: open": in_json('{"descriptor": "' + MARK, 400, "malformed_json", "JSON"),
    "json: an array": in_json("[]", 422, "invalid_descriptor", "object with descriptor and data"),
    "json: no descriptor": in_json('{"data": [1]}', 400, "missing_descriptor",
                                   "the JSON has neither descriptor nor operator"),
    "json: no data": in_json(f'{{"descriptor": {GOOD}}}', 422, "invalid_descriptor", "data: "),
    "json: unknown member": in_json(numbers("float32", [1], [1], x=1), 422, "invalid_descriptor",
                                    "x: "),
    "json: too few": in_json(numbers("float32", [3], [1, 2]), 400, "payload_size_mismatch", "3"),
    "json: a text": in_json(numbers("float32", [2], [1, MARK]), 422, "invalid_descriptor",
                            "data.1: "),
    "json: an object": in_json(numbers("float32", [2, 2], [[1, 2], [{MARK: MARK}, 2]]), 422,
                               "invalid_descriptor", "data.1.0: "),
    "json: strides": in_json(f'{{"descriptor": {ieee754("float32", [1], strides=[1])}, "data": 1}}',
                             422, "invalid_descriptor", "descriptor.input.strides: "),
    "json: too large": in_json(numbers("float32", [1 << 40], []), 413, "tensor_too_large", "limit"),
}  # fmt: skip


def told(reply: Reply) -> str:
    """What a refusal says, in the form of ``/round``; it tells nothing of payload or inside."""
    assert reply.headers["Content-Type"] == "application/problem+json"
    document = reply.json()
    assert {"type", "title", "status", "detail", "code"} <= set(document)
    assert document.get("errors") != []
    assert document["status"] == reply.status
    assert_discreet(reply)
    return f"{document['code']}: {document['detail']}"


def assert_discreet(reply: Reply) -> None:
    text = reply.content.decode() + str(reply.headers)
    assert MARK not in text
    assert not _INTERNAL.search(text), text
    assert reply.headers["X-Request-ID"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refusal_names_its_rule_and_nothing_of_the_payload(service: Service, case: Case) -> None:
    query, fields, body, status, code, says = case
    reply = service.request("POST", f"/round{query}", body, fields)
    text = told(reply)
    assert (reply.status, text.partition(": ")[0]) == (status, code), text
    assert says in text
    assert post(service, GOOD, BODY).status == 200


def inline(data: Any, **more: Any) -> bytes:
    return json.dumps(document(tensor("FP32", [2], data=data, **more))).encode()


INFERENCES: dict[str, tuple[str, bytes, Fields]] = {
    "json": (infer_path("round"), BODY, JSON),
    "data": (infer_path("round"), inline(MARK), JSON),
    "element": (infer_path("round"), inline([1, MARK]), JSON),
    "object": (infer_path("round"), inline([{MARK: 1}, 1]), JSON),
    "binary": (
        infer_path("round"),
        b'{"inputs": []}' + BODY,
        {"Inference-Header-Content-Length": "14"},
    ),
    "length": (infer_path("round"), BODY, {"Inference-Header-Content-Length": "9" * 30}),
    "raw": (infer_path("round"), BODY + b"!", {"Inference-Header-Content-Length": "0"}),
    "gzip": (infer_path("round"), BODY, {**JSON, "Content-Encoding": "gzip"}),
    "register": (
        "/v2/systemsharedmemory/region/r/register",
        json.dumps({"key": f"/{MARK}", "offset": 0, "byte_size": 4}).encode(),
        JSON,
    ),
}


@pytest.mark.parametrize("case", INFERENCES.values(), ids=INFERENCES)
def test_refused_inference_tells_nothing_of_the_payload(
    service: Service, case: tuple[str, bytes, Fields]
) -> None:
    reply = service.request("POST", *case)
    assert reply.status in (400, 413, 501)
    assert error_of(reply)
    assert_discreet(reply)


@pytest.mark.not_behind("nginx", reason="nothing of it comes to the service")
def test_bytes_that_are_no_http_are_not_echoed(service: Service) -> None:
    for request in (b"\x16\x03\x01\x02\x00\x01", b"GET / kryptonite\r\n\r\n", b"A" * 40_000):
        with contextlib.closing(service.connect(timeout=15)) as plug:
            plug.sendall(request)
            with plug.makefile("rb") as file, contextlib.suppress(ConnectionResetError):
                text = file.read().decode("latin-1")
                assert MARK not in text
                assert not _INTERNAL.search(text), text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("POST", "/round/", 404, "not_found"),
        ("POST", f"/{'x' * 50}", 404, "not_found"),
        ("GET", "/round", 405, "method_not_allowed"),
        ("GET", "/compare", 405, "method_not_allowed"),
        ("POST", "/livez", 405, "method_not_allowed"),
        ("PUT", "/operators", 405, "method_not_allowed"),
    ],
)
def test_unknown_path_is_404_and_unknown_method_405(
    service: Service, method: str, path: str, status: int, code: str
) -> None:
    reply = service.request(method, path)
    assert (reply.status, told(reply).partition(":")[0]) == (status, code)
    assert (reply.headers["Allow"] is None) == (status == 404)


@pytest.mark.not_behind("nginx", reason="it adds fields, and refuses large heads by itself")
def test_every_response_forbids_sniffing_and_most_forbid_caching(service: Service) -> None:
    replies: dict[str, Reply] = {
        "good": post(service, GOOD, BODY),
        "refused": post(service, "{", b""),
        "status": service.get("/operators"),
        "inference": service.get("/v2/models/round"),
        "missing": service.get("/nothing"),
        "page": service.get("/docs"),
        "file": service.get("/docs/swagger-ui.css"),
        "large head": service.request("GET", "/livez", headers={"X": "x" * 33_000}),
    }
    for name, reply in replies.items():
        assert reply.headers.get_all("X-Content-Type-Options") == ["nosniff"], name
        assert "Server" not in reply.headers, name
    for name in ("status", "inference", "missing", "page"):
        assert replies[name].headers.get_all("Cache-Control") == ["no-store"], name
    assert replies["file"].headers.get_all("Cache-Control") == ["no-cache"]


MANY = {f"{MARK}-{number}": number for number in range(480)}
LONG = MARK * 1000
#: Requests of some 8 KiB, most of them names that only the caller knows.
WORDY: dict[str, tuple[str, Fields, bytes]] = {
    **{
        f"{name}-descriptor": ("/round", headers(json.dumps(descriptor)), BODY)
        for name, descriptor in {
            "short": {"operator": "onnx", "dtype": "float32", "shape": [4], **MANY},
            "long-operator": {"operator": LONG, "dtype": "float32", "shape": [4]},
            "attributes": {"operator": {"dialect": "onnx", **MANY}, "dtype": "x", "shape": [4]},
            "long-name": {"operator": "onnx", "dtype": "float32", "shape": [4], LONG: 1},
            "dialect": {"dialect": "ieee754", **MANY},
            "inner": {"dialect": "ieee754", "input": MANY},
            "shape": {"dialect": "ieee754", "input": {"dtype": "float32", "shape": [-1] * 480}},
            "values": {"dialect": "ieee754", "input": {"dtype": LONG, "shape": [LONG]}},
        }.items()
    },
    **{
        f"{name}-document": ("/round", JSON, json.dumps(content).encode())
        for name, content in {
            "short": {"operator": "onnx", "dtype": "float32", "data": [1], **MANY},
            "long": {"descriptor": json.loads(GOOD), "data": [1], **MANY},
            "in-short": {"operator": {"dialect": "onnx", **MANY}, "dtype": "float32", "data": []},
            "data": {"descriptor": json.loads(GOOD), "data": [LONG]},
            "nesting": {"operator": "onnx", "dtype": "float32", "data": [[1], *[[]] * 480]},
        }.items()
    },
    "query": (f"/round?{LONG}=1", {}, b""),
    "operator-in-query": (f"/round?operator={LONG}", NPY, npy(np.zeros(4, "<f4"))),
    "type": ("/round", {"Content-Type": LONG}, b""),
    "coding": ("/round", headers(Content_Encoding=LONG), BODY),
    "digest": ("/round", headers(Content_Digest=f"sha-256=:{LONG}:"), BODY),
    "npy": ("/round", NPY, npy(np.zeros(4, [(MARK * 20, "<f4")]))),
    "path": (f"/{LONG}", {}, b""),
    "model": (infer_path(LONG), JSON, b"{}"),
    "version": (infer_path("round", LONG), JSON, b"{}"),
    **{
        name: (infer_path("round"), JSON, json.dumps(content).encode())
        for name, content in {
            "input": document(tensor("FP32", [4], LONG)),
            "inputs": {"inputs": [tensor("FP32", [4], each, data=[1] * 4) for each in MANY]},
            "datatype": document(tensor(LONG, [4])),
            "parameters": document(tensor("FP32", [4], parameters={LONG: LONG})),
            "output": document(tensor("FP32", [1], data=[1]), outputs=[{"name": LONG}]),
            "mode": document(tensor("FP32", [1], data=[1]), parameters={"rounding_mode": LONG}),
        }.items()
    },
    "trace": ("/v2/trace/setting", JSON, json.dumps(MANY).encode()),
    "load": (f"/v2/repository/models/{LONG}/load", JSON, json.dumps({"parameters": MANY}).encode()),
}


@pytest.mark.parametrize(("path", "fields", "body"), WORDY.values(), ids=WORDY)
def test_no_refusal_is_longer_than_8_kib(
    service: Service, path: str, fields: Fields, body: bytes
) -> None:
    reply = service.request("POST", path, body, fields)
    assert 400 <= reply.status < 500, reply.content[:200]
    assert len(reply.content) < 8 << 10
    assert sum(map(len, reply.headers.values())) < 2 << 10


@pytest.mark.not_behind("nginx", reason="it has a limit of its own, or waits for the body")
@pytest.mark.parametrize("declared", [1, 10 << 30])
def test_refusal_does_not_wait_for_the_body(service: Service, declared: int) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Content-Length", str(declared))
        connection.endheaders()
        assert told(Reply.read(connection)).startswith("payload_size_mismatch")


@pytest.mark.not_behind("nginx-buffering", reason="it gives 502 for some, as docs/deploy.md says")
def test_refused_sender_of_much_reads_why(service: Service) -> None:
    reply = post(service, GOOD, bytes(64 << 20))
    assert (reply.status, told(reply).partition(":")[0]) == (400, "payload_size_mismatch")


@pytest.fixture(scope="module")
def hasty() -> Iterator[Service]:
    with Service("--receive-timeout", "0.5") as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(*needing(tmp_path_factory.mktemp("keys"), "secret")) as running:
        yield running


#: The case above, or fields of a request, whose refusal is the example of a code.
OF_EXAMPLES: dict[str, str | Fields] = {
    "missing_descriptor": "no descriptor",
    "malformed_json": "descriptor: no json",
    "payload_size_mismatch": "short",
    "malformed_npy": "npy: none",
    "malformed_encoding": "cut gzip",
    "digest_mismatch": "digest",
    "tensor_too_large": "too large",
    "unsupported_media_type": "text",
    "unsupported_encoding": "encoding",
    "misdirected_host": headers(Host="evil.example"),
    "invalid_host": headers(Host="a b"),
    "invalid_descriptor": headers(ieee754("float32", [4], "nearest")),
    "headers_too_large": headers(X=33_000 * "x"),
}


@pytest.mark.parametrize("code", OF_EXAMPLES)
def test_examples_of_the_openapi_document_are_real_answers(hasty: Service, code: str) -> None:
    case = OF_EXAMPLES[code]
    fields, body = CASES[case][1:3] if isinstance(case, str) else (case, BODY)
    reply = hasty.request("POST", "/round", body, fields)
    assert reply.status == EXAMPLES[code].status
    assert reply.json() == problem(EXAMPLES[code])


def test_the_other_examples_are_real_answers(hasty: Service, locked: Service) -> None:
    assert locked.get("/operators").json() == problem(EXAMPLES["unauthorized"])
    assert hasty.get("/nowhere").json() == problem(EXAMPLES["not_found"])
    assert hasty.get("/round").json() == problem(EXAMPLES["method_not_allowed"])
    unknown = hasty.request("FETCH", "/round", BODY)
    assert (unknown.status, unknown.json()) == (501, problem(EXAMPLES["unimplemented"]))
    for count, body, code in (
        (2, BODY, "duplicate_descriptor"),
        (1, BODY[:4], "receive_timeout"),
    ):
        with contextlib.closing(hasty.connection()) as connection:
            connection.putrequest("POST", "/round")
            for _ in range(count):
                connection.putheader("Operator-Descriptor", GOOD)
            connection.putheader("Content-Length", str(len(BODY)))
            connection.endheaders(body)
            assert Reply.read(connection).json() == problem(EXAMPLES[code])


def test_refusals_name_the_remedy_in_a_header(hasty: Service, locked: Service) -> None:
    coded, text = {"Content-Encoding": "br"}, {"Content-Type": "text/plain"}
    for reply, name, value in (
        (hasty.request("POST", "/round", BODY, headers(**coded)), "Accept-Encoding", "gzip"),
        (hasty.request("POST", "/round", b"{}", {**JSON, **coded}), "Accept-Encoding", "gzip"),
        (hasty.request("POST", "/compare", BODY, headers(**coded)), "Accept-Encoding", "deflate"),
        (hasty.request("POST", infer_path("round"), b"{}", coded), "Accept-Encoding", "gzip"),
        (hasty.request("POST", "/v2/repository/index", b"{}", coded), "Accept-Encoding", "gzip"),
        (hasty.request("POST", "/round", BODY, text), "Accept", "application/x-npy"),
        (hasty.request("POST", "/compare", BODY, text), "Accept", "application/json"),
        (hasty.get("/round"), "Allow", "POST"),
        (hasty.get(infer_path("round")), "Allow", "POST"),
        (locked.get("/operators"), "WWW-Authenticate", "Bearer"),
        (locked.get("/v2"), "WWW-Authenticate", "Bearer"),
    ):
        assert reply.status in (401, 405, 415)
        assert value in reply.headers[name], (reply.status, name)


REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
LARGE = document(tensor("FP32", [1 << 31], data=[0]))
OF_INFERENCE: dict[str, tuple[str, Fields, Any]] = {
    "400": (infer_path("round"), {}, document(tensor("FP32", [4], data=[1, 2, 3]))),
    "403": ("/v2/repository/index", {"Origin": "http://evil.example"}, {}),
    "404": (infer_path("round", "2"), {}, {}),
    "413": (infer_path("round"), {}, LARGE),
    "415": (infer_path("round"), {"Content-Encoding": "br"}, {}),
    "421": (infer_path("round"), {"Host": "evil.example"}, {}),
    "431": (infer_path("round"), {"X": 33_000 * "x"}, {}),
    "501": (infer_path("round"), {}, document(tensor("FP32", [1], parameters=REGION))),
}


@pytest.mark.parametrize("status", OF_INFERENCE)
def test_examples_of_inference_errors_are_real_answers(hasty: Service, status: str) -> None:
    path, fields, body = OF_INFERENCE[status]
    reply = hasty.request("POST", path, json.dumps(body).encode(), fields)
    assert (reply.status, reply.json()) == (int(status), {"error": REFUSALS[status][1]})


def test_example_of_an_inference_without_a_key(locked: Service) -> None:
    assert locked.get("/v2").json() == {"error": REFUSALS["401"][1]}
