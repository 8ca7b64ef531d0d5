"""The examples of errors in the OpenAPI document are what the service says, word for word."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.inference_form import document, tensor
from support.http.native_form import ieee754
from support.services.server import Reply, Service
from tensor_round.contract.errors import problem
from tensor_round_service.oip.operations import REFUSALS
from tensor_round_service.openapi.errors import EXAMPLES

BODY = np.array([0.5, 1.5, -0.3, 2.5], "<f4").tobytes()
GOOD = ieee754("float32", [4])
NEAREST = json.dumps({**json.loads(GOOD), "rounding": "nearest"})
Fields = dict[str, str]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--receive-timeout", "1") as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(hashlib.sha256(b"secret").hexdigest() + "\n")
    with Service("--api-keys-file", str(keys)) as running:
        yield running


def octets(descriptor: str = GOOD, **more: str) -> Fields:
    fields = {name.replace("_", "-"): value for name, value in more.items()}
    return {"Content-Type": "application/octet-stream", "Operator-Descriptor": descriptor, **fields}


REQUESTS: dict[str, tuple[Fields, bytes]] = {
    "missing_descriptor": ({"Content-Type": "application/octet-stream"}, BODY),
    "malformed_json": (octets("{"), BODY),
    "payload_size_mismatch": (octets(), BODY[:12]),
    "malformed_npy": ({"Content-Type": "application/x-npy"}, b"hello"),
    "malformed_encoding": (octets(Content_Encoding="gzip"), gzip.compress(BODY)[:-4]),
    "digest_mismatch": (octets(Content_Digest=f"sha-256=:{'A' * 43}=:"), BODY),
    "tensor_too_large": (octets(ieee754("float32", [1 << 31])), BODY),
    "unsupported_media_type": ({"Content-Type": "text/plain"}, BODY),
    "unsupported_encoding": (octets(Content_Encoding="br"), BODY),
    "misdirected_host": (octets(Host="evil.example"), BODY),
    "invalid_descriptor": (octets(NEAREST), BODY),
    "headers_too_large": (octets(X=33_000 * "x"), BODY),
}


@pytest.mark.parametrize("code", REQUESTS)
def test_problem_documents(service: Service, code: str) -> None:
    fields, body = REQUESTS[code]
    reply = service.request("POST", "/round", body, fields)
    assert reply.status == EXAMPLES[code].status
    assert reply.json() == problem(EXAMPLES[code])


def test_other_problem_documents(service: Service, locked: Service) -> None:
    assert locked.get("/operators").json() == problem(EXAMPLES["unauthorized"])
    assert service.get("/nowhere").json() == problem(EXAMPLES["not_found"])
    assert service.get("/round").json() == problem(EXAMPLES["method_not_allowed"])


def test_two_descriptors(service: Service) -> None:
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", "/round")
        for _ in range(2):
            connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Content-Length", str(len(BODY)))
        connection.endheaders(BODY)
        assert Reply.read(connection).json() == problem(EXAMPLES["duplicate_descriptor"])


def test_a_body_that_does_not_come(service: Service) -> None:
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", GOOD)
        connection.putheader("Content-Length", str(len(BODY)))
        connection.endheaders(BODY[:4])
        assert Reply.read(connection).json() == problem(EXAMPLES["receive_timeout"])


LARGE = document(tensor("FP32", [1 << 31], data=[0]))
INFERENCES: dict[str, tuple[str, Fields, bytes]] = {
    "400": ("round", {}, json.dumps(document(tensor("FP32", [4], data=[1, 2, 3]))).encode()),
    "403": ("round", {"Origin": "http://evil.example"}, b""),
    "404": ("round/versions/2", {}, b""),
    "413": ("round", {}, json.dumps(LARGE).encode()),
    "415": ("round", {"Content-Encoding": "br"}, b"{}"),
    "421": ("round", {"Host": "evil.example"}, b"{}"),
    "431": ("round", {"X": 33_000 * "x"}, b"{}"),
    "501": (
        "round",
        {},
        json.dumps(
            document(
                tensor(
                    "FP32",
                    [1],
                    parameters={"shared_memory_region": "r", "shared_memory_byte_size": 4},
                )
            )
        ).encode(),
    ),
}


@pytest.mark.parametrize("status", INFERENCES)
def test_inference_errors(service: Service, status: str) -> None:
    model, fields, body = INFERENCES[status]
    path = f"/v2/models/{model}/infer"
    if status == "403":
        path = "/v2/repository/index"
    reply = service.request("POST", path, body, fields)
    assert reply.status == int(status)
    assert reply.json() == {"error": REFUSALS[status][1]}


def test_inference_without_a_key(locked: Service) -> None:
    assert locked.get("/v2").json() == {"error": REFUSALS["401"][1]}
