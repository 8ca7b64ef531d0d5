"""Bytes behind JSON, and numbers in it, as one may write and read them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    BINARY_OUT,
    EVEN,
    HEADER_LENGTH,
    OF_X,
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

STRICT: dict[str, Any] = {"parameters": {"strict_json": True}}


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


def test_names_may_be_quoted(service: Service) -> None:
    head = json.dumps(document(tensor("FP32", [1], data=[2.5]))).encode()
    for path in ("/v2/models/onnx%5Fround/infer", "/v2/models/%6Fnnx_round/versions/22/infer"):
        assert Answer.of(service.request("POST", path, head)).head["model_name"] == "onnx_round"


def strictly(content: bytes) -> Any:
    """What JSON.parse and its like make of it: bare NaN and Infinity are no JSON."""

    def refuse(token: str) -> Any:
        raise ValueError(token)

    return json.loads(content, parse_constant=refuse)


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_strict_json_has_strings_for_special_values(service: Service, datatype: str) -> None:
    data = ["NaN", "Infinity", "-Infinity", -0.3, 1.5]  # read as /round reads them
    request = document(tensor(datatype, [5], data=data), **STRICT)
    reply = infer(service, request)
    assert b'"data":["NaN","Infinity","-Infinity",-0.0,2.0]' in reply.content
    (output,) = strictly(reply.content)["outputs"]
    assert output["data"][:3] == data[:3]


def test_without_the_wish_they_are_bare_tokens(service: Service) -> None:
    for parameters in ({}, {"strict_json": False}):
        request = document(tensor("FP32", [1], data=["NaN"]), parameters=parameters)
        content = infer(service, request).content
        assert b'"data":[NaN]' in content
        with pytest.raises(ValueError, match="NaN"):
            strictly(content)


def test_strict_json_changes_no_bytes(service: Service) -> None:
    request = document(tensor("FP32", [2], data=["Infinity", 0.5]), **STRICT)
    request["parameters"] = {"strict_json": True, "binary_data_output": True}
    assert Answer.of(infer(service, request)).payload == np.array([np.inf, 0], "<f4").tobytes()


def test_a_long_output_is_strict_too(service: Service) -> None:
    data: list[Any] = [0.5] * 70_000 + ["NaN"]  # more than is written in one block
    reply = infer(service, document(tensor("FP32", [70_001], data=data), **STRICT))
    (output,) = strictly(reply.content)["outputs"]
    assert output["data"][-2:] == [0.0, "NaN"]
