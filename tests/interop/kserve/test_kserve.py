"""KServe's REST client: its health calls, inference in binary and in JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import pytest
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceRESTClient, RESTConfig

from support.http.inference_form import AWAY, X
from support.services.server import Service
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded

Act = Callable[[InferenceRESTClient], Awaitable[Any]]


def run(act: Act) -> Any:
    async def connected() -> Any:
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            return await act(client)

    return asyncio.run(connected())


def request(
    x: np.ndarray[Any, Any], datatype: str, *, binary: bool, **parameters: Any
) -> InferRequest:
    tensor = InferInput("X", list(x.shape), datatype)
    tensor.set_data_from_numpy(x, binary_data=binary)
    if binary:
        parameters["binary_data_output"] = True
    return InferRequest("round", [tensor], request_id="seven", parameters=parameters or None)


def test_health(service: Service) -> None:
    async def act(client: InferenceRESTClient) -> Any:
        return (
            await client.is_server_live(service.url),
            await client.is_server_ready(service.url),
            await client.is_model_ready(service.url, "round"),
            await client.is_model_ready(service.url, "none"),
        )

    assert run(act) == (True, True, True, False)


DTYPES = {
    "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT64": "int64", "UINT16": "uint16",
    "UINT64": "uint64",
}  # fmt: skip


@pytest.mark.parametrize("datatype", ["FP16", *DTYPES])
def test_binary(service: Service, datatype: str) -> None:
    dtype = DTYPES.get(datatype, "float16")
    patterns = samples(dtype, random_count=1000)
    sent = request(patterns.view(dtype), datatype, binary=True)
    response = run(lambda client: client.infer(service.url, sent, model_name="round"))
    answer = np.asarray(response.outputs[0].as_numpy())
    # It writes the answer's numbers into a list and back, which loses what NaNs say.
    np.testing.assert_array_equal(answer, rounded(patterns, dtype, "ties_to_even").view(dtype))
    assert (response.id, response.model_name) == ("seven", "round")


@pytest.mark.parametrize("datatype", DTYPES)
def test_json(service: Service, datatype: str) -> None:
    x = np.arange(-3, 4).astype(DTYPES[datatype])
    sent = request(x, datatype, binary=False)
    response = run(lambda client: client.infer(service.url, sent, model_name="round"))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), x)


@pytest.mark.parametrize("binary", [True, False])
def test_parameters(service: Service, binary: bool) -> None:
    sent = request(X, "FP32", binary=binary, rounding="ties_to_away")
    response = run(lambda client: client.infer(service.url, sent, model_name="round"))
    np.testing.assert_array_equal(response.outputs[0].as_numpy(), AWAY)


def test_errors_reach_the_user(service: Service) -> None:
    sent = request(X, "FP32", binary=True, rounding="up")
    with pytest.raises(httpx.HTTPStatusError, match="ties_to_even"):
        run(lambda client: client.infer(service.url, sent, model_name="round"))
