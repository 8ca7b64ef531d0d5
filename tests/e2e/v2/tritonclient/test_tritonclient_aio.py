"""tritonclient's asyncio client, which is another implementation, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from support.http.inference_form import AWAY, X
from support.v2.tritonclients import Tritonclient, given
from tensor_round_service.oip.models import MODELS
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")

Act = Callable[[Any], Awaitable[Any]]
Run = Callable[[Act], Any]


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [("float16", "<f2"), ("bfloat16", ml_dtypes.bfloat16), ("float32", "<f4"), ("int64", "<i8")],
)
def test_dtypes(run: Run, kind: Tritonclient, dtype: str, numpy: Any) -> None:
    patterns = samples(dtype)

    async def act(client: Any) -> Any:
        return (await client.infer("round", [given(kind, patterns.view(numpy))])).as_numpy("Y")

    answer = run(act)
    expected = rounded(patterns, dtype, "ties_to_even")
    np.testing.assert_array_equal(answer.view(patterns.dtype), expected)


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_compression(run: Run, kind: Tritonclient, algorithm: str | None) -> None:
    async def act(client: Any) -> Any:
        result = await client.infer(
            "round",
            [given(kind, X)],
            parameters={"rounding": "ties_to_away"},
            **kind.packed(algorithm),
        )
        return result.as_numpy("Y")

    np.testing.assert_array_equal(run(act), AWAY)


def test_many_at_once(run: Run, kind: Tritonclient) -> None:
    async def act(client: Any) -> Any:
        results = await asyncio.gather(
            *(client.infer("round", [given(kind, X + n)]) for n in range(50))
        )
        return [result.as_numpy("Y") for result in results]

    for n, answer in enumerate(run(act)):
        np.testing.assert_array_equal(answer, np.rint(X + n))


def test_every_other_call(run: Run, kind: Tritonclient) -> None:
    plain = kind.plain

    async def act(client: Any) -> None:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("round", "1")
        assert not await client.is_model_ready("round", "2")
        assert "statistics" in plain(await client.get_server_metadata())["extensions"]
        assert plain(await client.get_model_metadata("round"))["versions"] == ["1"]
        assert plain(await client.get_model_config("round"))["name"] == "round"
        assert len(plain(await client.get_model_repository_index())) == len(MODELS)
        assert plain(await client.get_inference_statistics("round"))["model_stats"]
        assert plain(await client.get_log_settings())["log_verbose_level"] == 0
        assert plain(await client.get_trace_settings())["trace_level"] == ["OFF"]
        await client.load_model("openvino_round")

    run(act)


REFUSED: dict[str, tuple[Act, int, str]] = {
    "unload": (lambda c: c.unload_model("round"), 400, "cannot be unloaded"),
    "logging": (lambda c: c.update_log_settings({"log_info": True}), 400, "fixed"),
    "trace": (
        lambda c: c.update_trace_settings("round", {"trace_rate": "1"}), 400, "no tracing",
    ),
    "metadata": (lambda c: c.get_model_metadata("none"), 404, 'no model "none"'),
    "config": (lambda c: c.get_model_config("round", "9"), 404, "no version"),
    "statistics": (lambda c: c.get_inference_statistics("none"), 404, "no model"),
    "memory": (lambda c: c.register_system_shared_memory("r", "/k", 1), 501, "PREFIX"),
    "memory-status": (lambda c: c.get_system_shared_memory_status(), 501, "PREFIX"),
    "memory-unregister": (lambda c: c.unregister_system_shared_memory(), 501, "PREFIX"),
    "cuda": (lambda c: c.register_cuda_shared_memory("r", b"handle==", 0, 1), 501, "CUDA"),
    "cuda-status": (lambda c: c.get_cuda_shared_memory_status(), 501, "CUDA"),
    "cuda-unregister": (lambda c: c.unregister_cuda_shared_memory(), 501, "CUDA"),
}  # fmt: skip


@pytest.mark.parametrize(("act", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_errors(run: Run, kind: Tritonclient, act: Act, status: int, says: str) -> None:
    with pytest.raises(InferenceServerException, match=says) as caught:
        run(act)
    assert kind.status(caught.value) == status


@pytest.mark.parametrize(
    ("model", "x", "status", "says"),
    [("none", X, 404, "no model"), ("onnx_round", X.astype("i8"), 400, "got INT64")],
)
def test_refused_inferences(
    run: Run, kind: Tritonclient, model: str, x: np.ndarray[Any, Any], status: int, says: str
) -> None:
    with pytest.raises(InferenceServerException, match=says) as caught:
        run(lambda client: client.infer(model, [given(kind, x)]))
    assert kind.status(caught.value) == status
