"""The rest of ``/v2`` over plain HTTP: what each path says, and what it says no to."""

from __future__ import annotations

import gzip
import time
from typing import Any

import pytest

from support.cases.descriptors import CASES
from support.http.inference_form import document, error_of, infer, tensor
from support.services.server import Service

MODELS = {cases.model.name: cases.model for cases in CASES.values()}
VERSIONS = {name: list(model.versions) for name, model in MODELS.items()}
ALL = [(model, version) for model, versions in VERSIONS.items() for version in versions]


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
    assert metadata["extensions"] == [
        "binary_tensor_data",
        "parameters",
        "statistics",
        "model_configuration",
        "model_repository",
    ]


def test_health(service: Service) -> None:
    assert got(service, "/v2/health/live") == {"live": True}
    assert got(service, "/v2/health/ready") == {"ready": True}


@pytest.mark.parametrize("model", VERSIONS)
def test_models(service: Service, model: str) -> None:
    base = f"/v2/models/{model}"
    newest = f"{base}/versions/{VERSIONS[model][-1]}"
    assert got(service, base)["versions"] == VERSIONS[model]
    assert got(service, base) == got(service, newest)
    assert got(service, f"{base}/config") == got(service, f"{newest}/config")
    assert got(service, f"{base}/ready") == {"name": model, "ready": True}


@pytest.mark.parametrize(("model", "version"), ALL)
def test_every_version(service: Service, model: str, version: str) -> None:
    base = f"/v2/models/{model}/versions/{version}"
    metadata, config = got(service, base), got(service, f"{base}/config")
    shape = [-1] * 4 if version == "2_1" else [-1]
    names = MODELS[model].input, MODELS[model].output
    for mine, triton, name in zip(("inputs", "outputs"), ("input", "output"), names, strict=True):
        assert metadata[mine] == [{"name": name, "datatype": "FP32", "shape": shape}]
        assert config[triton] == [{"name": name, "data_type": "TYPE_FP32", "dims": shape}]
    assert got(service, f"{base}/ready")["ready"] is True


@pytest.mark.parametrize(("model", "version"), ALL)
def test_what_a_model_takes(service: Service, model: str, version: str) -> None:
    datatypes, ranks = MODELS[model].versions[version]
    parameters = got(service, f"/v2/models/{model}/versions/{version}/config")["parameters"]
    assert parameters["datatypes"] == {"string_value": datatypes}
    assert parameters["ranks"] == {"string_value": ranks}


def test_modes_are_told(service: Service) -> None:
    config = got(service, "/v2/models/directml_element_wise_round/config")
    modes = config["parameters"]["rounding_mode"]["string_value"]
    assert set(modes.split(",")) == {"HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO", "TOWARD_INFINITY"}
    assert "mode" not in got(service, "/v2/models/onnx_round/config")["parameters"]


def statistics(service: Service, path: str) -> Any:
    (entry,) = got(service, path)["model_stats"]
    return entry


def test_statistics(service: Service) -> None:
    path = "/v2/models/openvino_round/stats"
    before = statistics(service, path)
    request = document(tensor("FP32", [2], data=[0.5, 1.5]))
    wrong = document(tensor("FP33", [2], data=[0.5, 1.5]))
    began = time.time_ns() // 1_000_000
    for sent in (request, request, wrong):
        infer(service, sent, model="openvino_round")
    after = statistics(service, path)
    assert after["inference_count"] == after["execution_count"] == before["inference_count"] + 2
    assert began <= after["last_inference"] <= time.time_ns() // 1_000_000
    for name, more in (
        ("success", 2), ("fail", 1), ("queue", 2), ("compute_input", 2), ("compute_infer", 2),
        ("compute_output", 2), ("cache_hit", 0), ("cache_miss", 0),
    ):  # fmt: skip
        old, new = before["inference_stats"][name], after["inference_stats"][name]
        assert new["count"] == old["count"] + more, name
        assert new["ns"] >= old["ns"]
    spent = after["inference_stats"]["success"]["ns"] - before["inference_stats"]["success"]["ns"]
    assert 0 < spent < 10**9


def test_all_statistics(service: Service) -> None:
    entries = got(service, "/v2/models/stats")["model_stats"]
    assert [(entry["name"], entry["version"]) for entry in entries] == ALL
    entries = got(service, "/v2/models/onnx_round/stats")["model_stats"]
    assert [entry["version"] for entry in entries] == ["11", "22"]
    assert statistics(service, "/v2/models/onnx_round/versions/11/stats")["version"] == "11"


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
    ("GET", "/v2/models/none", None, 404, 'no model "none"'),
    ("GET", "/v2/models/none/ready", None, 404, 'no model "none"'),
    ("GET", "/v2/models/none/config", None, 404, 'no model "none"'),
    ("GET", "/v2/models/none/stats", None, 404, 'no model "none"'),
    ("GET", "/v2/models/none/trace/setting", None, 404, 'no model "none"'),
    ("GET", "/v2/models/round/versions/2", None, 404, "it has 1"),
    ("GET", "/v2/models/round/versions/2/ready", None, 404, "it has 1"),
    ("GET", "/v2/models/round/versions/01/ready", None, 404, "it has 1"),
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
    ("POST", "/v2/repository/models/none/load", b"", 404, "no model"),
    ("POST", "/v2/repository/models/round/load", b"{", 400, "not JSON"),
    ("POST", "/v2/repository/models/round/unload", b"", 400, "cannot be unloaded"),
    ("POST", "/v2/repository/models/none/unload", b"", 404, "no model"),
    ("POST", "/v2/logging", b'{"log_info":false}', 400, "fixed"),
    ("POST", "/v2/trace/setting", b"{}", 400, "no tracing"),
    ("POST", "/v2/models/round/trace/setting", b"{}", 400, "no tracing"),
    ("POST", "/v2/models/none/trace/setting", b"{}", 404, "no model"),
    *((method, f"/v2/{family}{path}", b"{}", 501, says)
      for family, says in (("systemsharedmemory", "PREFIX"), ("cudasharedmemory", "CUDA"))
      for method, path in (
          ("GET", "/status"), ("GET", "/region/r/status"), ("POST", "/region/r/register"),
          ("POST", "/unregister"), ("POST", "/region/r/unregister"),
      )),
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
