"""All requests besides inference: what each says, and what it says no to."""

from __future__ import annotations

import time
from typing import Any

import pytest

from support.cases.descriptors import CASES
from support.http.inference_form import document, tensor
from support.v2.callers import Caller

MODELS = {cases.model.name: cases.model for cases in CASES.values()}
VERSIONS = {name: list(model.versions) for name, model in MODELS.items()}
ALL = [(model, version) for model, versions in VERSIONS.items() for version in versions]
DIRECTML = "directml_element_wise_round"


def test_server(caller: Caller) -> None:
    assert caller.ask("ServerLive").head == {"live": True}
    assert caller.ask("ServerReady").head == {"ready": True}
    metadata = caller.ask("ServerMetadata").head
    assert metadata["name"] == "tensor-round"
    assert metadata["extensions"] == [
        "binary_tensor_data",
        "parameters",
        "statistics",
        "model_configuration",
        "model_repository",
    ]


@pytest.mark.parametrize(("model", "version"), ALL)
def test_every_version(caller: Caller, model: str, version: str) -> None:
    asked = [{"name": model, "version": version}]
    if version == VERSIONS[model][-1]:
        asked.append({"name": model})  # the newest
    shape = [-1] * 4 if version == "2_1" else [-1]
    names = MODELS[model].input, MODELS[model].output
    datatypes, ranks = MODELS[model].versions[version]
    for wish in asked:
        metadata = caller.ask("ModelMetadata", **wish).head
        config = caller.ask("ModelConfig", **wish).head
        assert (metadata["name"], metadata["versions"]) == (model, VERSIONS[model])
        assert (config["name"], config["max_batch_size"]) == (model, 0)
        for mine, triton, name in zip(
            ("inputs", "outputs"), ("input", "output"), names, strict=True
        ):
            assert metadata[mine] == [{"name": name, "datatype": "FP32", "shape": shape}]
            (configured,) = config[triton]
            wanted = {"name": name, "data_type": "TYPE_FP32", "dims": shape}
            assert configured | wanted == configured
        assert config["parameters"]["datatypes"] == {"string_value": datatypes}
        assert config["parameters"]["ranks"] == {"string_value": ranks}
        assert caller.ask("ModelReady", **wish).is_ready


@pytest.mark.parametrize(
    "wrong", [{"name": "none"}, {"name": "\x01\n"}, {"name": "round", "version": "2"}]
)
def test_unknown_model_is_not_ready(caller: Caller, wrong: dict[str, str]) -> None:
    outcome = caller.ask("ModelReady", **wrong)
    assert outcome.status in (200, 404)
    assert not outcome.is_ready


def test_config_lists_the_modes(caller: Caller) -> None:
    config = caller.ask("ModelConfig", name=DIRECTML).head
    modes = config["parameters"]["rounding_mode"]["string_value"]
    assert set(modes.split(",")) == {"HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO", "TOWARD_INFINITY"}
    assert "mode" not in caller.ask("ModelConfig", name="onnx_round").head["parameters"]


def statistics(caller: Caller, model: str, version: str = "") -> Any:
    told = caller.ask("ModelStatistics", name=model, version=version).head
    (entry,) = told["model_stats"]
    return entry


def test_statistics(caller: Caller) -> None:
    before = statistics(caller, "openvino_round")
    request = document(tensor("FP32", [2], data=[0.5, 1.5]))
    wrong = document(tensor("FP33", [2], data=[0.5, 1.5]))
    began = time.time_ns() // 1_000_000
    for sent in (request, request, wrong):
        caller.infer(sent, model="openvino_round")
    after = statistics(caller, "openvino_round")
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
    assert statistics(caller, "onnx_round", "11")["version"] == "11"


def test_the_repository(caller: Caller) -> None:
    index = [{"name": name, "version": version, "state": "READY"} for name, version in ALL]
    assert caller.ask("RepositoryIndex").head == index
    assert caller.ask("RepositoryIndex", ready=True).head == index
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
