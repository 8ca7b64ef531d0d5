"""tritonclient, NVIDIA's own client, against a real socket: every inference it has, every dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from support.http.inference_form import DIRECTML, EVEN, MODELS, X
from support.v2.tritonclients import Tritonclient, given
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, INTEGER_WIDTHS, rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
NUMPY: dict[str, Any] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", *INTEGER_WIDTHS)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
FP8 = ("float8_e4m3fn", "float8_e5m2")


def asked(
    kind: Tritonclient,
    client: Any,
    x: np.ndarray[Any, Any],
    model: str = "round",
    version: str = "",
    **parameters: Any,
) -> np.ndarray[Any, Any]:
    """An array rounded."""
    into, out = ("InputTensor", "OutputTensor") if model == DIRECTML else ("X", "Y")
    result = client.infer(
        model,
        [given(kind, x, into)],
        version,
        outputs=[kind.wish(out)],
        parameters=parameters or None,
    )
    y = result.as_numpy(out)
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    return y


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_positive"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_every_dtype_to_the_bit(kind: Tritonclient, client: Any, dtype: str, rounding: str) -> None:
    patterns = samples(dtype)
    answer = asked(kind, client, patterns.view(NUMPY[dtype]), rounding=rounding)
    np.testing.assert_array_equal(answer.view(patterns.dtype), rounded(patterns, dtype, rounding))


@pytest.mark.parametrize("dtype", FP8)
def test_fp8_travels_as_uint8(kind: Tritonclient, client: Any, dtype: str) -> None:
    patterns = samples(dtype)
    result = client.infer("round", [given(kind, patterns)], parameters={"dtype": dtype})
    expected = rounded(patterns, dtype, "ties_to_even")
    np.testing.assert_array_equal(result.as_numpy("Y"), expected)
    (output,) = kind.plain(result.get_response())["outputs"]
    assert (output["datatype"], output["parameters"]["dtype"]) == ("UINT8", dtype)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 5), (1,) * 32], ids=str)
def test_every_shape(kind: Tritonclient, client: Any, shape: tuple[int, ...]) -> None:
    x = np.resize(X, shape).astype("<f4")
    np.testing.assert_array_equal(asked(kind, client, x), np.rint(x))


@pytest.mark.parametrize("count", [1, 256, 1 << 14, 1 << 18, 1 << 22])
@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_every_length_and_compression(
    kind: Tritonclient, client: Any, count: int, algorithm: str | None
) -> None:
    x = np.random.default_rng(count).normal(scale=9, size=count).astype("<f4")
    result = client.infer("round", [given(kind, x)], **kind.packed(algorithm))
    assert result.as_numpy("Y").tobytes() == np.rint(x).tobytes()


@pytest.mark.parametrize(("model", "version", "parameters", "expected"), MODELS)
def test_every_model(
    kind: Tritonclient,
    client: Any,
    model: str,
    version: str,
    parameters: dict[str, Any],
    expected: np.ndarray[Any, Any],
) -> None:
    y = asked(kind, client, X, model, version, **parameters)
    np.testing.assert_array_equal(y.view("<u4"), expected.view("<u4"))


def test_three_halves_to_directml(kind: Tritonclient, client: Any) -> None:
    # DirectML rounds buffers up to 4 bytes; the protocol's tensors have none but their own.
    x = np.array([[[[0.5, 1.5, -2.5]]]], "<f2")
    np.testing.assert_array_equal(asked(kind, client, x, DIRECTML, "2_1"), [[[[0, 2, -2]]]])


def test_without_outputs(kind: Tritonclient, client: Any) -> None:
    result = client.infer("round", [given(kind, X)], request_id="a/b c", priority=1, timeout=1000)
    np.testing.assert_array_equal(result.as_numpy("Y"), EVEN)
    response = kind.plain(result.get_response())
    assert response["id"] == "a/b c"
    assert response["model_name"] == "round"
    assert response["model_version"] == "1"
    assert response["outputs"][0]["parameters"] == {}


def test_async_infer(kind: Tritonclient, client: Any) -> None:
    pending = [kind.later(client, "round", [given(kind, X + n)]) for n in range(8)]
    for n, wait in enumerate(pending):
        np.testing.assert_array_equal(wait().as_numpy("Y"), np.rint(X + n))


def test_many_calls_without_a_pause(kind: Tritonclient, client: Any) -> None:
    """A client may send further frames with each call, which bring nothing."""
    tensor = given(kind, X)
    for _ in range(1500):
        result = client.infer("round", [tensor])
    np.testing.assert_array_equal(result.as_numpy("Y"), EVEN)


@pytest.mark.parametrize(
    ("model", "version", "x", "parameters", "status", "says"),
    [
        ("torch_round", "", X, {}, 404, 'no model "torch_round"'),
        ("round", "2", X, {}, 404, "model round has no version \"2\"; it has 1"),
        ("onnx_round", "", X.astype("i4"), {}, 400, "takes FP16, FP32, FP64, BF16, got INT32"),
        ("onnx_round", "11", X.astype(ml_dtypes.bfloat16), {}, 400,
         "takes FP16, FP32, FP64, got BF16"),
        (DIRECTML, "2_1", X.reshape(1, 2, 5), {}, 400, "exactly 4 dimensions, got 3"),
        (DIRECTML, "", X.astype("f8"), {}, 400, "takes FP32, FP16, got FP64"),
        ("round", "", X, {"rounding": "up"}, 400, "ties_to_even"),
        ("round", "", X, {"mode": "half_to_even"}, 400, "model round has rounding"),
        ("round", "", np.array([b"a"], object), {}, 400, "got \"BYTES\""),
        ("round", "", np.array([True]), {}, 400, "got \"BOOL\""),
    ],
)  # fmt: skip
def test_errors_a_user_can_read(
    kind: Tritonclient,
    client: Any,
    model: str,
    version: str,
    x: np.ndarray[Any, Any],
    parameters: dict[str, Any],
    status: int,
    says: str,
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        asked(kind, client, x, model, version, **parameters)
    assert kind.status(caught.value) == status
    assert says in str(caught.value.message())


def test_every_float_is_tried() -> None:
    assert set(FLOATS) <= {*NUMPY, *FP8}
