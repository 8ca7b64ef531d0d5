"""tritonclient over gRPC, blocking, asynchronous and streaming."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.utils.shared_memory as memory

from support.http.inference_form import EVEN, X
from support.pages import Reader, blocks
from support.segments import PREFIX
from support.services.server import Service

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def grpc_service() -> Iterator[Service]:
    with Service("--grpc", "true", "--shared-memory-prefix", PREFIX) as running:
        yield running


@pytest.fixture
def client(grpc_service: Service) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"127.0.0.1:{grpc_service.port}") as made:
        yield made


def of_x(x: np.ndarray[Any, Any] = X) -> triton.InferInput:
    tensor = triton.InferInput("X", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x)
    return tensor


def test_health_and_metadata(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("round")
    assert client.get_server_metadata().name == "tensor-round"
    assert client.get_model_metadata("onnx_round").inputs[0].datatype == "FP32"
    assert client.get_model_config("round").config.backend == "tensor_round"
    assert len(client.get_model_repository_index().models) > 20


@pytest.mark.parametrize("count", [0, 1, 256, 1 << 14, 1 << 18, 1 << 22])
@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_inference(client: triton.InferenceServerClient, count: int, algorithm: str | None) -> None:
    x = np.random.default_rng(count).normal(scale=9, size=count).astype("<f4")
    result = client.infer("round", [of_x(x)], request_id="7", compression_algorithm=algorithm)
    assert result.as_numpy("Y").tobytes() == np.rint(x).tobytes()
    assert result.get_response().id == "7"


def test_refusals(client: triton.InferenceServerClient) -> None:
    with pytest.raises(triton.InferenceServerException, match="there is no model") as raised:
        client.infer("none", [of_x()])
    assert raised.value.status() == "StatusCode.NOT_FOUND"
    with pytest.raises(triton.InferenceServerException, match="round has rounding"):
        client.infer("round", [of_x()], parameters={"mode": "x"})


def test_a_stream(client: triton.InferenceServerClient) -> None:
    told: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: told.put((result, error)))
    for model in ("round", "none", "round"):
        client.async_stream_infer(model, [of_x()])
    outcomes = [told.get(timeout=60) for _ in range(3)]
    client.stop_stream()
    assert "there is no model" in str(outcomes[1][1])
    for result, error in outcomes[::2]:
        assert error is None
        assert result.as_numpy("Y").tobytes() == EVEN.tobytes()


def test_shared_memory(client: triton.InferenceServerClient) -> None:
    key = f"/{PREFIX}grpc_clients"
    region = memory.create_shared_memory_region("r", key, X.nbytes)
    try:
        memory.set_shared_memory_region(region, [X])
        client.register_system_shared_memory("r", key, X.nbytes)
        assert "r" in client.get_system_shared_memory_status().regions
        tensor = triton.InferInput("X", list(X.shape), "FP32")
        tensor.set_shared_memory("r", X.nbytes)
        output = triton.InferRequestedOutput("Y")
        output.set_shared_memory("r", X.nbytes)
        client.infer("round", [tensor], outputs=[output])
        found = memory.get_contents_as_numpy(region, np.float32, list(X.shape))
        assert found.tobytes() == EVEN.tobytes()
        client.unregister_system_shared_memory("r")
    finally:
        memory.destroy_shared_memory_region(region)


def test_the_asynchronous_client(grpc_service: Service) -> None:
    async def main() -> list[Any]:
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{grpc_service.port}") as client:
            return list(await asyncio.gather(*[client.infer("round", [of_x()]) for _ in range(32)]))

    assert {each.as_numpy("Y").tobytes() for each in asyncio.run(main())} == {EVEN.tobytes()}


@pytest.mark.parametrize("streams", [1, 16])
def test_the_bench_s_client(grpc_service: Service, streams: int) -> None:
    command = [sys.executable, "-m", "bench.peers.triton_client"]
    command += map(str, (grpc_service.port, 1 << 20, streams, 1))
    done = subprocess.run(
        command, cwd=ROOT, input="0\n0\n", capture_output=True, text=True, timeout=60
    )
    ready, *blocks = map(json.loads, done.stdout.splitlines())
    assert ready is True, done.stderr
    assert [number for _, number in blocks] == [3 if streams == 1 else streams] * 2
    assert all(seconds > 0 for seconds, _ in blocks)


def test_the_page_s_block(grpc_service: Service, tmp_path: Path) -> None:
    (block,) = [b for b in blocks("docs/open-inference.md") if "tritonclient.grpc" in b.text]
    with Reader(tmp_path, Path(sys.executable).parent) as reader:
        reader.read(block, grpc_service.url)
