"""The paths of ``/v2`` besides inference: which there are, with which methods and bodies."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from support.cases.descriptors import CASES
from support.http.inference_form import error_of
from support.services.server import Service

MODELS = [cases.model for cases in CASES.values()]
ALL = [(model.name, version) for model in MODELS for version in model.versions]


def got(service: Service, path: str) -> Any:
    reply = service.get(path)
    assert reply.status == 200, reply.content
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["X-Request-ID"]
    return reply.json()


@pytest.mark.parametrize("path", ["/v2", "/v2/", "/v2?a=b"])
def test_server_metadata(service: Service, path: str) -> None:
    metadata = got(service, path)
    assert set(metadata) == {"name", "version", "extensions"}


@pytest.mark.parametrize("path", ["", "/versions/1"])
def test_readiness_names_the_model(service: Service, path: str) -> None:
    assert got(service, f"/v2/models/round{path}/ready") == {"name": "round", "ready": True}


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"ready":true}', b'{"ready":false}'])
def test_repository_index(service: Service, body: bytes | None) -> None:
    reply = service.request("POST", "/v2/repository/index", body)
    assert reply.json() == [
        {"name": model, "version": version, "state": "READY"} for model, version in ALL
    ]


def test_a_packed_control_request(service: Service) -> None:
    body, headers = gzip.compress(b'{"ready":true}'), {"Content-Encoding": "gzip"}
    assert service.request("POST", "/v2/repository/index", body, headers).status == 200


# method, path, body; status, and what the error says.
REFUSED: list[tuple[str, str, bytes | None, int, str]] = [
    ("GET", "/v2/nowhere", None, 404, "nothing at this path"),
    ("GET", "/v2//", None, 404, "nothing"),
    ("GET", "/v2/health", None, 404, "nothing"),
    ("GET", "/v2/models", None, 404, "POST /v2/repository/index lists the models"),
    ("GET", "/v2/models/", None, 404, "POST /v2/repository/index lists the models"),
    ("GET", "/v2/models/round/nowhere", None, 404, "nothing"),
    ("GET", "/v2/models/%01%0A/ready", None, 404, "no model"),
    ("POST", "/v2/models/round/infer/", b"", 404, "nothing"),
    ("POST", "/v2", b"", 405, "GET"),
    ("POST", "/v2/health/live", b"", 405, "GET"),
    ("POST", "/v2/models/round", b"", 405, "GET"),
    ("GET", "/v2/models/round/infer", None, 405, "POST"),
    ("PUT", "/v2/models/round/infer", b"", 405, "POST"),
    ("DELETE", "/v2/models/onnx_round/versions/11/infer", None, 405, "POST"),
    ("GET", "/v2/repository/index", None, 405, "POST"),
    ("PATCH", "/v2/systemsharedmemory/status", None, 405, "GET"),
    ("POST", "/v2/repository/index", b"{", 400, "not JSON"),
    ("POST", "/v2/repository/index", b"[]", 400, "object"),
    ("POST", "/v2/repository/index", b'{"ready":1}', 400, "ready: must be true or false"),
    ("POST", "/v2/repository/index", b'{"a":1,"a":2}', 400, "twice"),
    ("POST", "/v2/repository/index", b" " * (64 << 10) + b"{}", 413, "65536"),
    ("POST", "/v2/repository/models/round/load", b"{", 400, "not JSON"),
    ("POST", "/v2/logging", b'{"log_info":false}', 400, "fixed"),
    ("POST", "/v2/models/round/trace/setting", b"{}", 400, "no tracing"),
    ("POST", "/v2/models/none/trace/setting", b"{}", 404, "no model"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    REFUSED,
    ids=[f"{case[0]} {case[1]} {(case[2] or b'')[:9]!r}" for case in REFUSED],
)
def test_refusals(
    service: Service, method: str, path: str, body: bytes | None, status: int, says: str
) -> None:
    reply = service.request(method, path, body)
    assert reply.status == status, reply.content
    assert says in error_of(reply)
    if status == 405:
        assert says in reply.headers["Allow"]


def test_only_v2_is_the_protocols(service: Service) -> None:
    for path in ("/v2x", "/v3", "/V2"):
        reply = service.get(path)
        assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")


@pytest.mark.not_behind("nginx", reason="it refuses such a path by itself")
def test_a_nul_in_a_path_is_no_model(service: Service) -> None:
    reply = service.get("/v2/models/%00/ready")
    assert reply.status == 404
    assert "no model" in error_of(reply)
