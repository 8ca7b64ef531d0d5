"""The methods without a tensor, beside what their paths under ``/v2`` respond."""

from __future__ import annotations

from typing import Any

import pytest

from support.http.grpc_client import Client, as_json, framed, made
from support.services.server import Service
from tensor_round_service.grpc.health import NAME as HEALTH

CHECK, WATCH = f"/{HEALTH}/Check", f"/{HEALTH}/Watch"
HEALTH_REQUEST, HEALTH_RESPONSE = (
    f"grpc.health.v1.HealthCheck{s}" for s in ("Request", "Response")
)
REFLECTION = "grpc.reflection.v1"


def test_health(client: Client) -> None:
    assert client.call("ServerLive", b"").read("ServerLiveResponse").live
    assert client.call("ServerReady", b"").read("ServerReadyResponse").ready
    request = made("ModelReadyRequest", name="round", version="1")
    assert client.call("ModelReady", request).read("ModelReadyResponse").ready
    for service in ("", "inference.GRPCInferenceService", HEALTH):
        answer = client.call(CHECK, made(HEALTH_REQUEST, service=service))
        assert answer.read(HEALTH_RESPONSE).status == 1
    assert client.call(CHECK, made(HEALTH_REQUEST, service="none")).status == 5


def test_watching_a_service_that_is_not_there(client: Client) -> None:
    stream = client.begin(WATCH)
    client.send(stream, framed(made(HEALTH_REQUEST, service="none")), ends=True)
    (content,) = client.wait(stream, 1)
    told: Any = made(HEALTH_RESPONSE)
    told.ParseFromString(content)
    assert told.status == 3


@pytest.mark.parametrize("model", ["round", "onnx_round", "directml_element_wise_round"])
def test_metadata_are_those_of_http(service: Service, client: Client, model: str) -> None:
    answer = client.call("ServerMetadata", b"").read("ServerMetadataResponse")
    assert as_json(answer) == service.get("/v2").json()
    answer = client.call("ModelMetadata", made("ModelMetadataRequest", name=model))
    told = as_json(answer.read("ModelMetadataResponse"))
    of_http = service.get(f"/v2/models/{model}").json()
    assert [str(version) for version in told.pop("versions")] == of_http.pop("versions")
    assert told == of_http


def test_configuration(service: Service, client: Client) -> None:
    answer = client.call("ModelConfig", made("ModelConfigRequest", name="openvino_round"))
    config = answer.read("ModelConfigResponse").config
    of_http = service.get("/v2/models/openvino_round/config").json()
    assert {name: each.string_value for name, each in config.parameters.items()} == {
        name: each["string_value"] for name, each in of_http["parameters"].items()
    }
    (tensor,) = as_json(config)["input"]
    assert {name: tensor[name] for name in ("name", "data_type", "dims")} == of_http["input"][0]
    assert [*config.version_policy.specific.versions] == [5]


def test_statistics(service: Service, client: Client) -> None:
    told = client.call("ModelStatistics", b"").read("ModelStatisticsResponse")
    of_http = service.get("/v2/models/stats").json()["model_stats"]
    assert [(each.name, each.version) for each in told.model_stats] == [
        (each["name"], each["version"]) for each in of_http
    ]
    one = client.call("ModelStatistics", made("ModelStatisticsRequest", name="round", version="1"))
    assert [each.name for each in one.read("ModelStatisticsResponse").model_stats] == ["round"]


def test_the_repository(service: Service, client: Client) -> None:
    told = as_json(client.call("RepositoryIndex", b"").read("RepositoryIndexResponse"))
    index = [{**each, "version": str(each["version"])} for each in told["models"]]
    of_http = service.request("POST", "/v2/repository/index", b"", {}).json()
    assert index == [{**each, "reason": ""} for each in of_http]
    load = made("RepositoryModelLoadRequest", model_name="round")
    assert client.call("RepositoryModelLoad", load).status == 0
    unload = made("RepositoryModelUnloadRequest", model_name="round")
    assert client.call("RepositoryModelUnload", unload).status == 3


def test_what_is_not_there(client: Client) -> None:
    assert client.call("ModelMetadata", made("ModelMetadataRequest", name="none")).status == 5
    assert client.call("NoMethod", b"").status == 12
    assert client.call("/no.Service/Method", b"").status == 12
    assert client.call("CudaSharedMemoryStatus", b"").status == 12
    assert client.call("ServerLive", bytes(1 << 20)).status == 8
    assert client.call("ServerLive", b"\xff").status == 3


def test_reflection(client: Client) -> None:
    path = f"/{REFLECTION}.ServerReflection/ServerReflectionInfo"
    asked = [
        {"list_services": ""},
        {"file_containing_symbol": "inference.GRPCInferenceService.ModelInfer"},
        {"file_containing_symbol": "inference.ModelConfig"},
        {"file_by_filename": "grpc_health/v1/health.proto"},
        {"file_by_filename": "none.proto"},
        {"all_extension_numbers_of_type": "inference.ModelConfig"},
    ]
    stream = client.begin(path)
    told: list[Any] = []
    for number, members in enumerate(asked, 1):
        client.send(stream, framed(made(f"{REFLECTION}.ServerReflectionRequest", **members)))
        told.append(made(f"{REFLECTION}.ServerReflectionResponse"))
        told[-1].ParseFromString(client.wait(stream, number)[-1])
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 0
    services = {each.name for each in told[0].list_services_response.service}
    assert {"inference.GRPCInferenceService", HEALTH, f"{REFLECTION}.ServerReflection"} <= services
    found = [len(each.file_descriptor_response.file_descriptor_proto) for each in told[1:4]]
    assert found == [2, 1, 1]
    assert [each.error_response.error_code for each in told[4:]] == [5, 12]


def test_what_does_not_speak_grpc(client: Client) -> None:
    stream = client.begin("ServerLive", ("content-type", "application/json"))
    client.send(stream, b"{}", ends=True)
    assert client.finish(stream).fields[":status"] == "415"
