"""grpcio-reflection's client, which knows nothing of the service: it asks for all that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from support.http.inference_form import AWAY, X
from support.services.server import Service

INFERENCE, HEALTH = "inference.GRPCInferenceService", "grpc.health.v1.Health"
REFLECTION = [f"grpc.reflection.{version}.ServerReflection" for version in ("v1", "v1alpha")]


@pytest.fixture(scope="module")
def channel(service: Service) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{service.port}") as made:
        yield made


@pytest.fixture(scope="module")
def database(channel: grpc.Channel) -> ProtoReflectionDescriptorDatabase:
    return ProtoReflectionDescriptorDatabase(channel)


@pytest.fixture(scope="module")
def pool(database: ProtoReflectionDescriptorDatabase) -> DescriptorPool:
    """What the service tells, and nothing else."""
    return DescriptorPool(database)


def call(channel: grpc.Channel, pool: DescriptorPool, name: str, /, **members: Any) -> Any:
    """A call of one message, which is built by what the service tells."""
    service, _, method = name.rpartition(".")
    told = pool.FindServiceByName(service).FindMethodByName(method)
    ask = channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=GetMessageClass(told.output_type).FromString,
    )
    return ask(GetMessageClass(told.input_type)(**members))


def test_the_services(database: ProtoReflectionDescriptorDatabase) -> None:
    assert sorted(database.get_services()) == sorted([INFERENCE, HEALTH, *REFLECTION])


def test_every_method_that_is_told_is_there(
    channel: grpc.Channel, pool: DescriptorPool, database: ProtoReflectionDescriptorDatabase
) -> None:
    paths = [
        f"/{service}/{method.name}"
        for service in database.get_services()
        for method in pool.FindServiceByName(service).methods
    ]
    assert len(paths) > 20
    for path in paths:
        assert channel.stream_stream(path)(iter([])).code() != grpc.StatusCode.UNIMPLEMENTED, path


def test_model_infer_is_described(pool: DescriptorPool) -> None:
    method = pool.FindServiceByName(INFERENCE).FindMethodByName("ModelInfer")
    assert method.input_type.full_name == "inference.ModelInferRequest"
    fields = {field.name: field.number for field in method.input_type.fields}
    assert fields == {
        "model_name": 1, "model_version": 2, "id": 3, "parameters": 4, "inputs": 5, "outputs": 6,
        "raw_input_contents": 7,
    }  # fmt: skip


def test_an_inference(channel: grpc.Channel, pool: DescriptorPool) -> None:
    response = call(
        channel,
        pool,
        f"{INFERENCE}.ModelInfer",
        model_name="round",
        parameters={"rounding": {"string_param": "ties_to_away"}},
        inputs=[{"name": "X", "datatype": "FP32", "shape": X.shape}],
        raw_input_contents=[X.tobytes()],
    )
    assert response.raw_output_contents[:] == [AWAY.tobytes()]
    assert response.outputs[0].shape == [*X.shape]


def test_health_and_configuration(channel: grpc.Channel, pool: DescriptorPool) -> None:
    assert call(channel, pool, f"{HEALTH}.Check").status == 1
    told = call(channel, pool, f"{INFERENCE}.ModelConfig", name="round")
    assert told.config.backend == "tensor_round"
