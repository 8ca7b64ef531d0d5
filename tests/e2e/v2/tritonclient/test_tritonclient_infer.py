"""tritonclient, NVIDIA's own client, against a real socket: every inference it has, every dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from support.http.inference_form import AWAY, EVEN, ZERO, X
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, INTEGER_WIDTHS, Bits, is_nan, rounded

pytestmark = pytest.mark.not_behind("unix", reason="tritonclient calls TCP ports alone")
NUMPY: dict[str, Any] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", *INTEGER_WIDTHS)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
FP8 = ("float8_e4m3fn", "float8_e5m2")
DIRECTML = "directml_element_wise_round"


def sent(x: np.ndarray[Any, Any], *, binary: bool = True, name: str = "X") -> triton.InferInput:
    tensor = triton.InferInput(name, list(x.shape), np_to_triton_dtype(x.dtype))
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


def asked(
    client: triton.InferenceServerClient,
    x: np.ndarray[Any, Any],
    model: str = "round",
    version: str = "",
    *,
    binary: bool = True,
    **parameters: Any,
) -> np.ndarray[Any, Any]:
    """An array rounded, with the numbers in the form asked for both ways."""
    into, out = ("InputTensor", "OutputTensor") if model == DIRECTML else ("X", "Y")
    result = client.infer(
        model,
        [sent(x, binary=binary, name=into)],
        version,
        outputs=[triton.InferRequestedOutput(out, binary_data=binary)],
        parameters=parameters or None,
    )
    y = result.as_numpy(out)
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    return y


@pytest.mark.parametrize("rounding", ["ties_to_even", "toward_positive"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_every_dtype_to_the_bit(
    client: triton.InferenceServerClient, dtype: str, rounding: str
) -> None:
    patterns = samples(dtype)
    answer = asked(client, patterns.view(NUMPY[dtype]), rounding=rounding)
    np.testing.assert_array_equal(answer.view(patterns.dtype), rounded(patterns, dtype, rounding))


@pytest.mark.parametrize("dtype", FP8)
def test_fp8_travels_as_uint8(client: triton.InferenceServerClient, dtype: str) -> None:
    patterns = samples(dtype)
    expected = rounded(patterns, dtype, "ties_to_even")
    np.testing.assert_array_equal(asked(client, patterns, dtype=dtype), expected)
    np.testing.assert_array_equal(asked(client, patterns, binary=False, dtype=dtype), expected)
    result = client.infer("round", [sent(patterns)], parameters={"dtype": dtype})
    (output,) = result.get_response()["outputs"]
    assert (output["datatype"], output["parameters"]["dtype"]) == ("UINT8", dtype)


def equal_in_json(found: Bits, expected: Bits, dtype: str) -> bool:
    """Whether two runs of patterns are equal, but for what JSON cannot say of a NaN."""
    nan = is_nan(dtype, expected)
    return bool(np.all(np.where(nan, is_nan(dtype, found), found == expected)))


@pytest.mark.parametrize("dtype", [name for name in NUMPY if name != "bfloat16"])
def test_every_dtype_in_json(client: triton.InferenceServerClient, dtype: str) -> None:
    patterns = samples(dtype, random_count=1 << 12)
    answer = asked(client, patterns.view(NUMPY[dtype]), binary=False)
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


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("model", "version", "parameters", "expected"),
    [
        ("round", "", {}, EVEN),
        ("round", "1", {"rounding": "ties_to_away"}, AWAY),
        ("round", "", {"rounding": "toward_zero"}, ZERO),
        ("onnx_round", "", {}, EVEN),
        ("onnx_round", "11", {}, EVEN),
        ("onnx_round", "22", {}, EVEN),
        ("openvino_round", "", {}, EVEN),
        ("openvino_round", "5", {"mode": "half_away_from_zero"}, AWAY),
        (DIRECTML, "", {}, EVEN),
        (DIRECTML, "3_0", {"rounding_mode": "TOWARD_INFINITY"}, AWAY),
        (DIRECTML, "6_4", {"rounding_mode": "DML_ROUNDING_MODE_TOWARD_ZERO"}, ZERO),
        (DIRECTML, "5_2", {"rounding_mode": 1}, ZERO),
    ],
)
def test_every_model(
    client: triton.InferenceServerClient,
    model: str,
    version: str,
    parameters: dict[str, Any],
    expected: np.ndarray[Any, Any],
    binary: bool,
) -> None:
    y = asked(client, X, model, version, binary=binary, **parameters)
    np.testing.assert_array_equal(y.view("<u4"), expected.view("<u4"))


def test_three_halves_to_directml(client: triton.InferenceServerClient) -> None:
    # DirectML rounds buffers up to 4 bytes; the protocol's tensors have none but their own.
    x = np.array([[[[0.5, 1.5, -2.5]]]], "<f2")
    np.testing.assert_array_equal(asked(client, x, DIRECTML, "2_1"), [[[[0, 2, -2]]]])


def test_without_outputs_the_answer_is_binary(client: triton.InferenceServerClient) -> None:
    result = client.infer("round", [sent(X)], request_id="a/b c", priority=1, timeout=1000)
    np.testing.assert_array_equal(result.as_numpy("Y"), EVEN)
    response = result.get_response()
    assert response["id"] == "a/b c"
    assert response["model_name"] == "round"
    assert response["model_version"] == "1"
    assert response["outputs"][0]["parameters"] == {"binary_data_size": X.nbytes}


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


def test_async_infer(client: triton.InferenceServerClient) -> None:
    pending = [client.async_infer("round", [sent(X + n)]) for n in range(8)]
    for n, waiting in enumerate(pending):
        np.testing.assert_array_equal(waiting.get_result().as_numpy("Y"), np.rint(X + n))


@pytest.mark.parametrize(
    ("model", "version", "x", "parameters", "status", "says"),
    [
        ("torch_round", "", X, {}, "404", 'no model "torch_round"'),
        ("round", "2", X, {}, "404", "model round has no version \"2\"; it has 1"),
        ("onnx_round", "", X.astype("i4"), {}, "400", "takes FP16, FP32, FP64, BF16, got INT32"),
        ("onnx_round", "11", X.astype(ml_dtypes.bfloat16), {}, "400",
         "takes FP16, FP32, FP64, got BF16"),
        (DIRECTML, "2_1", X.reshape(1, 2, 5), {}, "400", "exactly 4 dimensions, got 3"),
        (DIRECTML, "", X.astype("f8"), {}, "400", "takes FP32, FP16, got FP64"),
        ("round", "", X, {"rounding": "up"}, "400", "ties_to_even"),
        ("round", "", X, {"mode": "half_to_even"}, "400", "model round has rounding"),
        ("round", "", np.array([b"a"], object), {}, "400", "got \"BYTES\""),
        ("round", "", np.array([True]), {}, "400", "got \"BOOL\""),
    ],
)  # fmt: skip
def test_errors_a_user_can_read(
    client: triton.InferenceServerClient,
    model: str,
    version: str,
    x: np.ndarray[Any, Any],
    parameters: dict[str, Any],
    status: str,
    says: str,
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        asked(client, x, model, version, **parameters)
    assert caught.value.status() == status
    assert says in str(caught.value.message())


def test_every_float_is_tried() -> None:
    assert set(FLOATS) <= {*NUMPY, *FP8}
