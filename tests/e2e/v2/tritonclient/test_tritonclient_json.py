"""tritonclient with what HTTP alone has: JSON in place of bytes, and codings of both ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import np_to_triton_dtype

from support.http.inference_form import AWAY, MODELS, X
from support.v2.tritonclients import OverHttp, Tritonclient
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import INTEGER_WIDTHS, Bits, is_nan, rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
NUMPY: dict[str, Any] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", *INTEGER_WIDTHS)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


@pytest.fixture(scope="module")
def kind() -> Tritonclient:
    return OverHttp()


def sent(x: np.ndarray[Any, Any], *, binary: bool = True, name: str = "X") -> triton.InferInput:
    tensor = triton.InferInput(name, list(x.shape), np_to_triton_dtype(x.dtype))
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


def asked(
    client: triton.InferenceServerClient,
    x: np.ndarray[Any, Any],
    model: str = "round",
    version: str = "",
    **parameters: Any,
) -> np.ndarray[Any, Any]:
    """An array rounded, with the numbers in JSON both ways."""
    into, out = ("InputTensor", "OutputTensor") if "directml" in model else ("X", "Y")
    result = client.infer(
        model,
        [sent(x, binary=False, name=into)],
        version,
        outputs=[triton.InferRequestedOutput(out, binary_data=False)],
        parameters=parameters or None,
    )
    y = result.as_numpy(out)
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    return y


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8(client: triton.InferenceServerClient, dtype: str) -> None:
    patterns = samples(dtype)
    expected = rounded(patterns, dtype, "ties_to_even")
    np.testing.assert_array_equal(asked(client, patterns, dtype=dtype), expected)


def equal_in_json(found: Bits, expected: Bits, dtype: str) -> bool:
    """Whether two runs of patterns are equal, but for what JSON cannot say of a NaN."""
    nan = is_nan(dtype, expected)
    return bool(np.all(np.where(nan, is_nan(dtype, found), found == expected)))


@pytest.mark.parametrize("dtype", [name for name in NUMPY if name != "bfloat16"])
def test_every_dtype(client: triton.InferenceServerClient, dtype: str) -> None:
    patterns = samples(dtype, random_count=1 << 12)
    answer = asked(client, patterns.view(NUMPY[dtype]))
    expected = rounded(patterns, dtype, "ties_to_even")
    assert equal_in_json(answer.view(patterns.dtype), expected, dtype)


def test_bfloat16_out_in_json(client: triton.InferenceServerClient) -> None:
    patterns = samples("bfloat16")
    tensor = sent(patterns.view(ml_dtypes.bfloat16))
    outputs = [triton.InferRequestedOutput("Y", binary_data=False)]
    answer = client.infer("round", [tensor], outputs=outputs).as_numpy("Y")
    assert answer is not None
    expected = rounded(patterns, "bfloat16", "ties_to_even")
    assert equal_in_json(answer.view("<u2"), expected, "bfloat16")


@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 5), (1,) * 32], ids=str)
def test_every_mixture_and_shape(
    client: triton.InferenceServerClient, shape: tuple[int, ...], binary_in: bool, binary_out: bool
) -> None:
    x = np.resize(X, shape).astype("<f4")
    outputs = [triton.InferRequestedOutput("Y", binary_data=binary_out)]
    result = client.infer("round", [sent(x, binary=binary_in)], outputs=outputs)
    np.testing.assert_array_equal(result.as_numpy("Y"), np.rint(x))
    assert ("data" in result.get_response()["outputs"][0]) is not binary_out


@pytest.mark.parametrize(("model", "version", "parameters", "expected"), MODELS)
def test_every_model(
    client: triton.InferenceServerClient,
    model: str,
    version: str,
    parameters: dict[str, Any],
    expected: np.ndarray[Any, Any],
) -> None:
    y = asked(client, X, model, version, **parameters)
    np.testing.assert_array_equal(y.view("<u4"), expected.view("<u4"))


@pytest.mark.parametrize("answered", [None, "gzip", "deflate"])
@pytest.mark.parametrize("asked_in", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compression(
    client: triton.InferenceServerClient, binary: bool, asked_in: Any, answered: Any
) -> None:
    x = np.tile(X, 10_000)
    result = client.infer(
        "round",
        [sent(x, binary=binary)],
        outputs=[triton.InferRequestedOutput("Y", binary_data=binary)],
        request_compression_algorithm=asked_in,
        response_compression_algorithm=answered,
    )
    np.testing.assert_array_equal(result.as_numpy("Y"), np.rint(x))


# Its HTTP library offers gzip and deflate in every request, and it unpacks what comes.
@pytest.mark.parametrize("accepted", [None, "gzip", "deflate", "identity"])
@pytest.mark.parametrize("packed", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compression_by_the_asynchronous_client(
    run: Callable[[Callable[[triton_aio.InferenceServerClient], Awaitable[Any]]], Any],
    binary: bool,
    packed: Any,
    accepted: str | None,
) -> None:
    async def act(client: triton_aio.InferenceServerClient) -> Any:
        headers = None if accepted is None else {"Accept-Encoding": accepted}
        result = await client.infer(
            "round",
            [sent(X, binary=binary)],
            outputs=[triton_aio.InferRequestedOutput("Y", binary_data=binary)],
            parameters={"rounding": "ties_to_away"},
            request_compression_algorithm=packed,
            headers=headers,
        )
        return result.as_numpy("Y")

    np.testing.assert_array_equal(run(act), AWAY)
