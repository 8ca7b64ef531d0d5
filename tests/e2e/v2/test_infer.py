"""Inference over plain HTTP: what tritonclient does not say, or says in its own way only."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    AWAY,
    BINARY_OUT,
    EVEN,
    HEADER_LENGTH,
    OF_X,
    ZERO,
    Answer,
    X,
    binary,
    document,
    infer,
    tensor,
)
from support.services.server import Service
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import is_nan, rounded


def test_the_answers_bytes(service: Service) -> None:
    reply = infer(service, document(OF_X, id="a", **BINARY_OUT), X.tobytes())
    head = (
        b'{"id":"a","model_name":"round","model_version":"1","outputs":[{"name":"Y",'
        b'"datatype":"FP32","shape":[10],"parameters":{"binary_data_size":40}}]}'
    )
    assert reply.content == head + EVEN.tobytes()
    assert reply.headers[HEADER_LENGTH] == str(len(head))
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Execution-Backend"] in ("numpy", "cupy")
    assert reply.headers["X-Request-ID"]


def test_no_outputs_and_no_wish_is_json(service: Service) -> None:
    answer = Answer.of(infer(service, document(OF_X), X.tobytes()))
    assert answer.payload == b""
    assert answer.output == {"name": "Y", "datatype": "FP32", "shape": [10], "data": EVEN.tolist()}


@pytest.mark.parametrize(
    ("everywhere", "own", "is_binary"),
    [(True, None, True), (True, False, False), (False, True, True), (None, True, True)],
)
def test_an_outputs_own_wish_comes_first(
    service: Service, everywhere: Any, own: Any, is_binary: bool
) -> None:
    output = {"name": "Y", "parameters": {} if own is None else {"binary_data": own}}
    wish = {} if everywhere is None else {"parameters": {"binary_data_output": everywhere}}
    request = document(tensor("FP32", [1], data=[0.5]), outputs=[output], **wish)
    answer = Answer.of(infer(service, request))
    assert answer.payload == (bytes(4) if is_binary else b"")


@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_zero_bytes(service: Service, wish: dict[str, Any]) -> None:
    request = document(binary("FP16", [3, 0], 0), **wish)
    for payload in (b"", None):  # with and without a stated length
        output = Answer.of(infer(service, request, payload)).output
        assert output["shape"] == [3, 0]
        assert output["data"] == [] if not wish else output["parameters"] == {"binary_data_size": 0}


NESTINGS: dict[str, tuple[list[int], Any]] = {
    "flat": ([2, 2], [0.5, 1.5, 2.5, -0.3]),
    "as-shaped": ([2, 2], [[0.5, 1.5], [2.5, -0.3]]),
    "otherwise": ([2, 2], [[0.5], [[1.5, [2.5]]], -0.3]),
    "deep": ([4], [[[[[[[[0.5, 1.5, 2.5, -0.3]]]]]]]]),
    "empty-arrays": ([4], [[], [0.5, 1.5], [], [[], 2.5], -0.3]),
}


@pytest.mark.parametrize(("shape", "data"), NESTINGS.values(), ids=NESTINGS)
def test_data_nests_however_it_likes(service: Service, shape: list[int], data: Any) -> None:
    output = Answer.of(infer(service, document(tensor("FP32", shape, data=data)))).output
    assert output["data"] == [0, 2, 2, 0]
    assert math.copysign(1, output["data"][3]) == -1


@pytest.mark.parametrize("data", [7.5, [7.5], [[7.5]]], ids=str)
def test_a_scalar(service: Service, data: Any) -> None:
    output = Answer.of(infer(service, document(tensor("FP64", [], data=data)))).output
    assert (output["shape"], output["data"]) == ([], [8.0])


@pytest.mark.parametrize(("dtype", "datatype"), [("float16", "FP16"), ("bfloat16", "BF16")])
def test_narrow_floats_in_json_both_ways(service: Service, dtype: str, datatype: str) -> None:
    patterns = samples(dtype)
    form = binary(datatype, [patterns.size], patterns.nbytes)
    texts = Answer.of(infer(service, document(form), patterns.tobytes())).output["data"]
    expected = rounded(patterns, dtype, "ties_to_even")
    again = document(tensor(datatype, [patterns.size], data=texts), **BINARY_OUT)
    found = np.frombuffer(Answer.of(infer(service, again)).payload, patterns.dtype)
    nan = is_nan(dtype, expected)
    np.testing.assert_array_equal(found[~nan], expected[~nan])
    assert is_nan(dtype, found)[nan].all()


def test_json_decimals_are_rounded_once(service: Service) -> None:
    # By way of float32 it would be a tie, and go to 1.
    data = [1.0004882812500002, "NaN", "-Infinity"]
    request = document(tensor("FP16", [3], data=data), **BINARY_OUT)
    reply = infer(service, json.dumps(request).encode().replace(b'"NaN"', b"NaN"))
    assert Answer.of(reply).payload == np.array([1, np.nan, -np.inf], "<f2").tobytes()
    big = document(tensor("UINT64", [2], data=[2**64 - 1, 2**53 + 1]))
    assert Answer.of(infer(service, big)).output["data"] == [2**64 - 1, 2**53 + 1]


def test_special_values_are_bare_tokens(service: Service) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e300], "<f8")
    reply = infer(service, document(binary("FP64", [5], 40)), x.tobytes())
    assert b'"data":[NaN,Infinity,-Infinity,-0.0,1e+300]' in reply.content


FP8: dict[str, Any] = {"parameters": {"dtype": "float8_e5m2", "binary_data_size": 256}}


@pytest.mark.parametrize("model", ["round", "openvino_round"])
def test_fp8(service: Service, model: str) -> None:
    patterns = samples("float8_e5m2")
    request = document(tensor("UINT8", [256], **FP8), **BINARY_OUT)
    answer = Answer.of(infer(service, request, patterns.tobytes(), model))
    assert answer.payload == rounded(patterns, "float8_e5m2", "ties_to_even").tobytes()
    assert answer.output["datatype"] == "UINT8"
    assert answer.output["parameters"]["dtype"] == "float8_e5m2"


@pytest.mark.parametrize("place", ["input", "request", "both"])
def test_where_dtype_may_stand(service: Service, place: str) -> None:
    dtype: dict[str, Any] = {"parameters": {"dtype": "float8_e4m3fn"}}
    own = dtype if place != "request" else {}
    request = document(
        tensor("UINT8", [1], data=[0x3A], **own), **(dtype if place != "input" else {})
    )
    assert Answer.of(infer(service, request)).output["data"] == [0x38]  # 1.25 -> 1.0


# Every parameter a dialect has, under every name that only some model knows.
MODES: list[tuple[str, dict[str, Any], Any]] = [
    ("round", {"rounding": "ties_to_away"}, AWAY),
    ("round", {"unknown": "parameter", "priority": 7, "timeout": 0}, EVEN),
    ("openvino_round", {"mode": "half_to_even"}, EVEN),
    ("openvino_round", {"mode": "half_away_from_zero"}, AWAY),
    ("directml_element_wise_round", {"rounding_mode": "HALVES_TO_NEAREST_EVEN"}, EVEN),
    ("directml_element_wise_round", {"rounding_mode": 2}, AWAY),
    ("directml_element_wise_round", {"rounding_mode": "TOWARD_ZERO"}, ZERO),
]


@pytest.mark.parametrize(("model", "parameters", "expected"), MODES)
def test_modes(service: Service, model: str, parameters: dict[str, Any], expected: Any) -> None:
    name = "InputTensor" if model.startswith("directml") else "X"
    request = document(binary("FP32", [10], 40, name), parameters=parameters)
    request["parameters"] = {**parameters, "binary_data_output": True}
    answer = Answer.of(infer(service, request, X.tobytes(), model))
    assert answer.payload == expected.tobytes()


@pytest.mark.parametrize(
    ("model", "version", "shape", "parameters"),
    [
        ("directml_element_wise_round", "2_1", [1, 1, 2, 5], {}),
        ("directml_element_wise_round", "6_4", [1] * 7 + [10], {}),
        ("onnx_round", "22", [10, 1] + [1] * 30, {}),
        ("onnx_round", "11", [], {}),
        ("openvino_round", "5", [0], {}),
    ],
)
def test_every_rank_the_dialect_allows(
    service: Service, model: str, version: str, shape: list[int], parameters: dict[str, Any]
) -> None:
    name = "InputTensor" if model.startswith("directml") else "X"
    payload = X[: math.prod(shape)].tobytes()
    request = document(binary("FP32", shape, len(payload), name), **BINARY_OUT)
    answer = Answer.of(infer(service, request, payload, model, version))
    assert answer.payload == EVEN[: math.prod(shape)].tobytes()
    assert (answer.head["model_version"], answer.output["shape"]) == (version, shape)


def test_the_newest_version_is_the_default(service: Service) -> None:
    for model, version in (("onnx_round", "22"), ("directml_element_wise_round", "6_4")):
        name = "InputTensor" if model.startswith("directml") else "X"
        request = document(tensor("FP16", [1], name, data=[1.5]))
        assert Answer.of(infer(service, request, model=model)).head["model_version"] == version


def test_names_may_be_quoted(service: Service) -> None:
    head = json.dumps(document(tensor("FP32", [1], data=[2.5]))).encode()
    for path in ("/v2/models/onnx%5Fround/infer", "/v2/models/%6Fnnx_round/versions/22/infer"):
        assert Answer.of(service.request("POST", path, head)).head["model_name"] == "onnx_round"
