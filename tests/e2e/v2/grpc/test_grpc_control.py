"""Health, reflection, and what is no method or no message."""

from __future__ import annotations

from typing import Any

from support.http.grpc_client import FILES, Client, framed, made
from tensor_round_service.grpc.health import NAME as HEALTH

CHECK, LIST, WATCH = (f"/{HEALTH}/{method}" for method in ("Check", "List", "Watch"))
HEALTH_REQUEST, HEALTH_RESPONSE = (
    f"grpc.health.v1.HealthCheck{s}" for s in ("Request", "Response")
)
REFLECTION = "grpc.reflection.v1"


def test_health(client: Client) -> None:
    for service in ("", "inference.GRPCInferenceService", HEALTH):
        answer = client.call(CHECK, made(HEALTH_REQUEST, service=service))
        assert answer.read(HEALTH_RESPONSE).status == 1
    assert client.call(CHECK, made(HEALTH_REQUEST, service="none")).status == 5
    told = client.call(LIST, b"").read("grpc.health.v1.HealthListResponse").statuses
    assert {service: told[service].status for service in told} == dict.fromkeys(
        ("", "inference.GRPCInferenceService", HEALTH), 1
    )


def test_watching_a_service_that_is_not_there(client: Client) -> None:
    stream = client.begin(WATCH)
    client.send(stream, framed(made(HEALTH_REQUEST, service="none")), ends=True)
    (content,) = client.wait(stream, 1)
    told: Any = made(HEALTH_RESPONSE)
    told.ParseFromString(content)
    assert told.status == 3


def test_versions_that_are_no_numbers_are_in_the_metadata_alone(client: Client) -> None:
    for model, versions in (("openvino_round", [5]), ("directml_element_wise_round", [])):
        answer = client.call("ModelConfig", made("ModelConfigRequest", name=model))
        config = answer.read("ModelConfigResponse").config
        assert [*config.version_policy.specific.versions] == versions


def test_unknown_method_or_message_has_its_status(client: Client) -> None:
    assert client.call("NoMethod", b"").status == 12
    assert client.call("/no.Service/Method", b"").status == 12
    assert client.call("ServerLive", bytes(1 << 20)).status == 8
    assert client.call("ServerLive", b"\xff").status == 3


def test_every_method_that_reflection_tells_is_there(client: Client) -> None:
    told = [(file.package, service) for file in FILES.file for service in file.service]
    for package, service in told:
        for method in service.method:
            stream = client.begin(f"/{package}.{service.name}/{method.name}")
            client.send(stream, b"", ends=True)
            assert client.finish(stream).status != 12, (service.name, method.name)


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


def test_other_content_type_gets_415(client: Client) -> None:
    stream = client.begin("ServerLive", ("content-type", "application/json"))
    client.send(stream, b"{}", ends=True)
    assert client.finish(stream).fields[":status"] == "415"
