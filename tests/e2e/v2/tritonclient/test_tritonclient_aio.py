"""tritonclient's asyncio client, which is another implementation, on a real socket."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http.aio as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from support.http.inference_form import AWAY, X
from support.services.server import Service
from tensor_round_service.inference.models import MODELS
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")

Act = Callable[[triton.InferenceServerClient], Awaitable[Any]]


def run(service: Service, act: Act) -> Any:
    async def connected() -> Any:
        async with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as client:
            return await act(client)

    try:
        return asyncio.run(connected())
    finally:
        # It asks after health and drops the answers unread; they would complain elsewhere.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def sent(x: np.ndarray[Any, Any], *, binary: bool = True) -> triton.InferInput:
    tensor = triton.InferInput("X", list(x.shape), np_to_triton_dtype(x.dtype))
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [("float16", "<f2"), ("bfloat16", ml_dtypes.bfloat16), ("float32", "<f4"), ("int64", "<i8")],
)
def test_dtypes(service: Service, dtype: str, numpy: Any) -> None:
    patterns = samples(dtype)

    async def act(client: triton.InferenceServerClient) -> Any:
        return (await client.infer("round", [sent(patterns.view(numpy))])).as_numpy("Y")

    answer = run(service, act)
    expected = rounded(patterns, dtype, "ties_to_even")
    np.testing.assert_array_equal(answer.view(patterns.dtype), expected)


# Its HTTP library offers gzip and deflate in every request, and it unpacks what comes.
@pytest.mark.parametrize("accepted", [None, "gzip", "deflate", "identity"])
@pytest.mark.parametrize("packed", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compression(service: Service, binary: bool, packed: Any, accepted: str | None) -> None:
    async def act(client: triton.InferenceServerClient) -> Any:
        headers = None if accepted is None else {"Accept-Encoding": accepted}
        result = await client.infer(
            "round",
            [sent(X, binary=binary)],
            outputs=[triton.InferRequestedOutput("Y", binary_data=binary)],
            parameters={"rounding": "ties_to_away"},
            request_compression_algorithm=packed,
            headers=headers,
        )
        return result.as_numpy("Y")

    np.testing.assert_array_equal(run(service, act), AWAY)


def test_many_at_once(service: Service) -> None:
    async def act(client: triton.InferenceServerClient) -> Any:
        results = await asyncio.gather(*(client.infer("round", [sent(X + n)]) for n in range(50)))
        return [result.as_numpy("Y") for result in results]

    for n, answer in enumerate(run(service, act)):
        np.testing.assert_array_equal(answer, np.rint(X + n))


def test_every_other_call(service: Service) -> None:
    async def act(client: triton.InferenceServerClient) -> None:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("round", "1")
        assert not await client.is_model_ready("round", "2")
        assert "statistics" in (await client.get_server_metadata())["extensions"]
        assert (await client.get_model_metadata("round"))["versions"] == ["1"]
        assert (await client.get_model_config("round"))["name"] == "round"
        assert len(await client.get_model_repository_index()) == len(MODELS)
        assert (await client.get_inference_statistics("round"))["model_stats"]
        assert (await client.get_log_settings())["log_verbose_level"] == 0
        assert (await client.get_trace_settings())["trace_level"] == ["OFF"]
        await client.load_model("openvino_round")

    run(service, act)


REFUSED: dict[str, tuple[Act, str, str]] = {
    "unload": (lambda c: c.unload_model("round"), "400", "cannot be unloaded"),
    "logging": (lambda c: c.update_log_settings({"log_info": True}), "400", "fixed"),
    "trace": (lambda c: c.update_trace_settings("round", {}), "400", "no tracing"),
    "metadata": (lambda c: c.get_model_metadata("none"), "404", 'no model "none"'),
    "config": (lambda c: c.get_model_config("round", "9"), "404", "no version"),
    "statistics": (lambda c: c.get_inference_statistics("none"), "404", "no model"),
    "infer": (lambda c: c.infer("none", [sent(X)]), "404", "no model"),
    "dtype": (lambda c: c.infer("onnx_round", [sent(X.astype("i8"))]), "400", "got INT64"),
    "memory": (lambda c: c.register_system_shared_memory("r", "/k", 1), "501", "PREFIX"),
    "memory-status": (lambda c: c.get_system_shared_memory_status(), "501", "PREFIX"),
    "memory-unregister": (lambda c: c.unregister_system_shared_memory(), "501", "PREFIX"),
    "cuda": (lambda c: c.register_cuda_shared_memory("r", b"handle", 0, 1), "501", "CUDA"),
    "cuda-status": (lambda c: c.get_cuda_shared_memory_status(), "501", "CUDA"),
    "cuda-unregister": (lambda c: c.unregister_cuda_shared_memory(), "501", "CUDA"),
}


@pytest.mark.parametrize(("act", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_errors(service: Service, act: Act, status: str, says: str) -> None:
    with pytest.raises(InferenceServerException, match=says) as caught:
        run(service, act)
    assert caught.value.status() == status
    assert "an exception occurred in the client" not in str(caught.value.message())
