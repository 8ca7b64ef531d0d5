"""gRPC's own clients: tritonclient's streams, limits, TLS and keys, and one that reflects.

All else of tritonclient is in tests/e2e/v2/tritonclient, over both transports.
"""

from __future__ import annotations

import asyncio
import queue
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from support.http.inference_form import AWAY, EVEN, X
from support.keys import needing
from support.pages import Reader, blocks
from support.services.server import Service
from support.services.tls import CA, CLIENT, TlsService, caller_context
from support.v2.tritonclient_grpc import OverGrpc

KIND = OverGrpc()
#: Messages of a stream; a client may send further frames with each, which bring nothing.
MANY = 2000


@pytest.fixture
def client(service: Service) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as made:
        yield made


def test_a_stream(client: triton.InferenceServerClient) -> None:
    told: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: told.put((result, error)))
    for model in ("round", "none", "round"):
        client.async_stream_infer(model, [KIND.given(X)])
    outcomes = [told.get(timeout=60) for _ in range(3)]
    assert "there is no model" in str(outcomes[1][1])
    for result, error in outcomes[::2]:
        assert error is None
        assert result.as_numpy("Y").tobytes() == EVEN.tobytes()
    for n in range(MANY):
        client.async_stream_infer("round", [KIND.given(X)], request_id=str(n))
        result, error = told.get(timeout=60)
        assert error is None
        assert result.get_response().id == str(n)
    client.stop_stream()


def test_a_stream_of_the_asynchronous_client(service: Service) -> None:
    xs = [np.random.default_rng(n).normal(scale=9, size=1 << n).astype("<f4") for n in range(20)]

    async def requests() -> AsyncIterator[dict[str, Any]]:
        for n, x in enumerate(xs):
            yield {"model_name": "round", "inputs": [KIND.given(x)], "request_id": str(n)}

    async def main() -> list[tuple[str, bytes]]:
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{service.port}") as client:
            told = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                told.append((result.get_response().id, result.as_numpy("Y").tobytes()))
            return told

    assert asyncio.run(main()) == [(str(n), np.rint(x).tobytes()) for n, x in enumerate(xs)]


def test_a_limit_of_time(client: triton.InferenceServerClient) -> None:
    x = np.zeros(4 << 20, "<f4")  # 16 MiB: no response can be there within a millisecond
    with pytest.raises(triton.InferenceServerException) as raised:
        client.infer("round", [KIND.given(x)], client_timeout=1e-3)
    assert raised.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    result = client.infer("round", [KIND.given(X)], client_timeout=60)
    assert result.as_numpy("Y").tobytes() == EVEN.tobytes()


def test_tls_keys_and_certificates_of_clients(tmp_path: Path) -> None:
    options = (*needing(tmp_path, "open sesame"), "--ssl-ca-certs", str(CA))
    theirs = {"root_certificates": str(CA)}
    mine = {"private_key": str(CLIENT), "certificate_chain": str(CLIENT)}
    with TlsService(*options, caller=caller_context(CLIENT)) as service:
        address = f"localhost:{service.port}"
        with triton.InferenceServerClient(address, ssl=True, **theirs, **mine) as client:
            assert client.is_server_ready()
            for header in ({"authorization": "Bearer open sesame"}, {"x-api-key": "open sesame"}):
                result = client.infer("round", [KIND.given(X)], headers=header)
                assert result.as_numpy("Y").tobytes() == EVEN.tobytes()
            with pytest.raises(triton.InferenceServerException) as raised:
                client.infer("round", [KIND.given(X)])
            assert raised.value.status() == "StatusCode.UNAUTHENTICATED"
        with (
            triton.InferenceServerClient(address, ssl=True, **theirs) as stranger,
            pytest.raises(triton.InferenceServerException),
        ):
            stranger.is_server_live(client_timeout=10)


def test_the_page_s_block(service: Service, tmp_path: Path) -> None:
    (block,) = [b for b in blocks("docs/open-inference.md") if "tritonclient.grpc" in b.text]
    with Reader(tmp_path, Path(sys.executable).parent) as reader:
        reader.read(block, service.url)


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
