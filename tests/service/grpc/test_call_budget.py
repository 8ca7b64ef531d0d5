"""How many Python functions one small call has the service call. No clock."""

from __future__ import annotations

import numpy as np
import pytest

from support.calls import first_thread_profiled, hold
from support.http.grpc_client import connected, infer_request, tensor_of
from support.http.inference_form import binary, document
from support.services.hosted import HostedService
from tensor_round_service.backends.select import compiled_kernels

TENSOR = np.random.default_rng(1).normal(scale=9, size=256).astype("<f4")
#: The first calls load what later ones find: they are not counted.
WARM_UP = range(3)
COUNTED = range(3, 9)


@pytest.mark.parametrize(
    ("fields", "budget"), [((), 84), (("traceparent",), 101)], ids=["alike", "traceparent"]
)
def test_calls_of_an_inference(fields: tuple[str, ...], budget: int) -> None:
    if (kernels := compiled_kernels()) is not None:
        kernels.wait()  # until then NumPy rounds, by more calls
    request = infer_request(document(binary("FP32", [256], TENSOR.nbytes)), TENSOR.tobytes())
    with (
        first_thread_profiled() as calls,
        HostedService() as service,
        connected(service) as client,
    ):

        def call(number: int) -> None:
            told = [(name, f"00-{number + 1:032x}-{number + 1:016x}-01") for name in fields]
            answer = client.call("ModelInfer", request, *told, at_once=True)
            assert tensor_of(answer).tobytes() == np.rint(TENSOR).tobytes()

        for number in WARM_UP:
            call(number)
        hold(calls.of_each(call, COUNTED), budget)
