"""All requests besides inference: what each says, what it says no to, and its path over HTTP."""

from __future__ import annotations

import gzip
import time
from functools import partial
from typing import Any

import pytest

from support.cases.descriptors import CASES
from support.cases.every import each
from support.http.inference_form import document, error_of, tensor
from support.services.server import Service
from support.v2.callers import Caller
from support.v2.grpc_caller import GrpcCaller
from tensor_round.contract.version import __version__

MODELS = {cases.model.name: cases.model for cases in CASES.values()}
VERSIONS = {name: list(model.versions) for name, model in MODELS.items()}
ALL = [(model, version) for model, versions in VERSIONS.items() for version in versions]
INDEX = [{"name": name, "version": version, "state": "READY"} for name, version in ALL]


def test_server(caller: Caller) -> None:
    assert caller.ask("ServerLive").head == {"live": True}
    assert caller.ask("ServerReady").head == {"ready": True}
    metadata = caller.ask("ServerMetadata").head
    assert (metadata["name"], metadata["version"]) == ("tensor-round", __version__)
    assert metadata["extensions"] == [
        "binary_tensor_data",
        "parameters",
        "statistics",
        "model_configuration",
        "model_repository",
    ]


@pytest.mark.parametrize("model", VERSIONS)
def test_every_version(caller: Caller, model: str) -> None:
    each(partial(check_version, caller), [(model, version) for version in VERSIONS[model]])


def check_version(caller: Caller, model: str, version: str) -> None:
    asked = [{"name": model, "version": version}]
    if version == VERSIONS[model][-1]:
        asked.append({"name": model})  # the newest
    row = MODELS[model]
    names = (row.input, *row.parameters), (row.output,)
    datatypes, ranks = MODELS[model].versions[version]
    shape = [-1] * max(int(ranks.partition("-")[0]), 1)
    for wish in asked:
        metadata = caller.ask("ModelMetadata", **wish).head
        config = caller.ask("ModelConfig", **wish).head
        assert (metadata["name"], metadata["versions"]) == (model, VERSIONS[model])
        assert (config["name"], config["max_batch_size"]) == (model, 0)
        for mine, triton, tensors in zip(
            ("inputs", "outputs"), ("input", "output"), names, strict=True
        ):
            for at, name in enumerate(tensors):
                kind = "UINT8" if name in row.quantized else "FP32"
                sizes = [-1] if at else shape
                assert metadata[mine][at] == {"name": name, "datatype": kind, "shape": sizes}
                configured = config[triton][at]
                wanted = {"name": name, "data_type": f"TYPE_{kind}", "dims": sizes}
                assert configured | wanted == configured
                assert configured.get("optional", False) is (at == 2 and row.has_optional)
            assert len(metadata[mine]) == len(config[triton]) == len(tensors)
        assert config["parameters"]["datatypes"] == {"string_value": datatypes}
        assert config["parameters"]["ranks"] == {"string_value": ranks}
        assert caller.ask("ModelReady", **wish).is_ready


@pytest.mark.parametrize(
    "wrong", [{"name": "none"}, {"name": "\x01\n"}, {"name": "round", "version": "2"}]
)
def test_unknown_model_is_not_ready(caller: Caller, wrong: dict[str, str]) -> None:
    """Over gRPC that is no error, which clients would raise: Triton has it so, too."""
    outcome = caller.ask("ModelReady", **wrong)
    assert outcome.status == (200 if isinstance(caller, GrpcCaller) else 404)
    assert not outcome.is_ready


def statistics(caller: Caller, model: str, version: str) -> Any:
    told = caller.ask("ModelStatistics", name=model, version=version).head
    (entry,) = told["model_stats"]
    return entry


def test_statistics(caller: Caller) -> None:
    before, other = (statistics(caller, "onnx_round", version) for version in ("11", "22"))
    request = document(tensor("FP32", [2], data=[0.5, 1.5]))
    wrong = document(tensor("FP33", [2], data=[0.5, 1.5]))
    began = time.time_ns() // 1_000_000
    for sent in (request, request, wrong):
        caller.infer(sent, model="onnx_round", version="11")
    after = statistics(caller, "onnx_round", "11")
    assert statistics(caller, "onnx_round", "22") == other
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


def test_all_statistics(caller: Caller) -> None:
    entries = caller.ask("ModelStatistics").head["model_stats"]
    assert [(entry["name"], entry["version"]) for entry in entries] == ALL
    entries = caller.ask("ModelStatistics", name="onnx_round").head["model_stats"]
    assert [entry["version"] for entry in entries] == ["11", "22"]


def test_the_repository(caller: Caller) -> None:
    assert caller.ask("RepositoryIndex").head == INDEX
    assert caller.ask("RepositoryIndex", ready=True).head == INDEX
    assert caller.ask("RepositoryModelLoad", model_name="round").head == {}


def test_settings(caller: Caller) -> None:
    assert caller.ask("LogSettings").head == {
        "log_file": "",
        "log_info": True,
        "log_warning": True,
        "log_error": True,
        "log_verbose_level": 0,
        "log_format": "default",
    }
    for model in ({}, {"model_name": "round"}):
        told = caller.ask("TraceSetting", **model).head
        assert told["trace_level"] == ["OFF"]


# Of which request with which fields; status, and what the error says.
UNKNOWN = {"name": "none"}
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    *((what, UNKNOWN, 404, 'no model "none"')
      for what in ("ModelMetadata", "ModelConfig", "ModelStatistics")),
    *((what, {"name": "round", "version": version}, 404, "it has 1")
      for what in ("ModelMetadata", "ModelConfig", "ModelStatistics")
      for version in ("2", "01")),
    ("ModelMetadata", {"name": "\x01\n"}, 404, "no model"),
    ("RepositoryModelLoad", {"model_name": "none"}, 404, "no model"),
    ("RepositoryModelUnload", {"model_name": "none"}, 404, "no model"),
    ("RepositoryModelUnload", {"model_name": "round"}, 400, "cannot be unloaded"),
    ("LogSettings", {"settings": {"log_info": {"bool_param": False}}}, 400, "fixed"),
    ("TraceSetting", {"settings": {"trace_rate": {"value": ["1"]}}}, 400, "no tracing"),
    ("TraceSetting", {"model_name": "none"}, 404, "no model"),
    *((f"{kind}SharedMemory{verb}", names, 501, says)
      for kind, says in (("System", "PREFIX"), ("Cuda", "CUDA"))
      for verb in ("Status", "Register", "Unregister")
      for names in ({"name": "r"}, {}) if names or verb != "Register"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "members", "status", "says"), REFUSED)
def test_refusals(
    caller: Caller, what: str, members: dict[str, Any], status: int, says: str
) -> None:
    outcome = caller.ask(what, **members)
    assert outcome.status == status, outcome.error
    assert says in outcome.error


@pytest.mark.parametrize(
    ("path", "members"),
    [
        *[(path, {"name", "version", "extensions"}) for path in ("/v2/", "/v2?a=b")],
        *[
            (f"/v2/models/round{version}/ready", {"name": "round", "ready": True})
            for version in ("", "/versions/1")
        ],
    ],
)
def test_paths_over_http(service: Service, path: str, members: Any) -> None:
    reply = service.get(path)
    assert reply.status == 200, reply.content
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["X-Request-ID"]
    assert (reply.json() if isinstance(members, dict) else set(reply.json())) == members


@pytest.mark.parametrize(
    "body", [None, b"", b"{}", b'{"ready":false}', gzip.compress(b"{}", mtime=0)]
)
def test_bodies_of_a_control_request(service: Service, body: bytes | None) -> None:
    headers = {"Content-Encoding": "gzip"} if body and body[:1] != b"{" else {}
    reply = service.request("POST", "/v2/repository/index", body, headers)
    assert reply.json() == INDEX


#: Method, path, body; status, and what the error says.
REFUSED_PATHS: list[tuple[str, str, bytes | None, int, str]] = [
    ("GET", "/v2/nowhere", None, 404, "nothing at this path"),
    ("GET", "/v2//", None, 404, "nothing"),
    ("GET", "/v2/health", None, 404, "nothing"),
    ("GET", "/v2/models", None, 404, "POST /v2/repository/index lists the models"),
    ("GET", "/v2/models/", None, 404, "POST /v2/repository/index lists the models"),
    ("GET", "/v2/models/round/nowhere", None, 404, "nothing"),
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
    *(("POST", "/v2/repository/models/round/load", b'{"parameters":%b}' % value, 400,
       "parameters: must be an object") for value in (b"null", b"[]", b"5", b'"x"')),
    ("POST", "/v2/repository/index", b" " * (64 << 10) + b"{}", 413, "65536"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    REFUSED_PATHS,
    ids=[f"{case[0]} {case[1]} {(case[2] or b'')[:9]!r}" for case in REFUSED_PATHS],
)
def test_refused_paths(
    service: Service, method: str, path: str, body: bytes | None, status: int, says: str
) -> None:
    reply = service.request(method, path, body)
    assert reply.status == status, reply.content
    assert says in error_of(reply)
    if status == 405:
        assert says in reply.headers["Allow"]


@pytest.mark.parametrize("path", ["/v2/logging", "/v2/trace/setting"])
def test_405_names_every_method(service: Service, path: str) -> None:
    reply = service.request("PUT", path)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD, POST")


def test_only_v2_is_the_protocols(service: Service) -> None:
    for path in ("/v2x", "/v3", "/V2"):
        reply = service.get(path)
        assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")


@pytest.mark.not_behind("nginx", reason="it refuses such a path by itself")
def test_a_nul_in_a_path_is_no_model(service: Service) -> None:
    reply = service.get("/v2/models/%00/ready")
    assert reply.status == 404
    assert "no model" in error_of(reply)
