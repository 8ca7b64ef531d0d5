"""KServe's clients, REST and gRPC: their health calls, inference in bytes and in numbers.

They are apart from the other peers, because one process cannot have both KServe's protobuf messages
and tritonclient's: they have the same names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig

from support.http.inference_form import AWAY, X
from support.services.server import Service
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded


class _Rest:
    """The REST client, which takes the address and the model with each call."""

    def __init__(self, client: InferenceRESTClient, url: str) -> None:
        self.is_server_live = partial(client.is_server_live, url)
        self.is_server_ready = partial(client.is_server_ready, url)
        self.is_model_ready = partial(client.is_model_ready, url)
        self.infer = partial(client.infer, url, model_name="round")


@asynccontextmanager
async def rest(service: Service) -> AsyncIterator[Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        yield _Rest(client, service.url)


def grpc_client(service: Service) -> AbstractAsyncContextManager[Any]:
    client: AbstractAsyncContextManager[Any] = InferenceGRPCClient(f"127.0.0.1:{service.port}")
    return client


Run = Callable[[Callable[[Any], Awaitable[Any]]], Any]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.fixture(params=[pytest.param(rest, id="rest"), pytest.param(grpc_client, id="grpc")])
def run(request: pytest.FixtureRequest, service: Service) -> Run:
    """Runs calls on a client."""

    async def connected(act: Callable[[Any], Awaitable[Any]]) -> Any:
        async with request.param(service) as client:
            return await act(client)

    return lambda act: asyncio.run(connected(act))


def inference(
    x: np.ndarray[Any, Any], datatype: str, *, binary: bool, **parameters: Any
) -> InferRequest:
    tensor = InferInput("X", list(x.shape), datatype)
    tensor.set_data_from_numpy(x, binary_data=binary)
    if binary:
        parameters["binary_data_output"] = True
    return InferRequest("round", [tensor], request_id="seven", parameters=parameters or None)


def test_health(run: Run) -> None:
    async def act(client: Any) -> Any:
        return (
            await client.is_server_live(),
            await client.is_server_ready(),
            await client.is_model_ready("round"),
            await client.is_model_ready("none"),
        )

    assert run(act) == (True, True, True, False)


DTYPES = {
    "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT64": "int64", "UINT16": "uint16",
    "UINT64": "uint64",
}  # fmt: skip


@pytest.mark.parametrize("datatype", ["FP16", *DTYPES])
def test_bytes(run: Run, datatype: str) -> None:
    dtype = DTYPES.get(datatype, "float16")
    patterns = samples(dtype, random_count=1000)
    sent = inference(patterns.view(dtype), datatype, binary=True)
    response = run(lambda client: client.infer(sent))
    answer = np.asarray(response.outputs[0].as_numpy())
    # REST's writes the answer's numbers into a list and back, which loses what NaNs say.
    np.testing.assert_array_equal(answer, rounded(patterns, dtype, "ties_to_even").view(dtype))
    assert (response.id, response.model_name) == ("seven", "round")


@pytest.mark.parametrize("datatype", DTYPES)
def test_numbers(run: Run, datatype: str) -> None:
    x = np.arange(-3, 4).astype(DTYPES[datatype])
    response = run(lambda client: client.infer(inference(x, datatype, binary=False)))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), x)


def test_nan_comes_back_as_a_number(run: Run) -> None:
    x = np.array([0.5, np.nan, -np.inf], np.float32)
    tensor = InferInput("X", [3], "FP32")
    tensor.set_data_from_numpy(x, binary_data=True)
    response = run(lambda client: client.infer(InferRequest("round", [tensor])))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), np.rint(x))


@pytest.mark.parametrize("binary", [True, False])
def test_parameters(run: Run, binary: bool) -> None:
    sent = inference(X, "FP32", binary=binary, rounding="ties_to_away")
    response = run(lambda client: client.infer(sent))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), AWAY)


def test_errors_reach_the_user(run: Run) -> None:
    sent = inference(X, "FP32", binary=True, rounding="up")
    with pytest.raises((httpx.HTTPStatusError, grpc.RpcError), match="ties_to_even"):
        run(lambda client: client.infer(sent))
