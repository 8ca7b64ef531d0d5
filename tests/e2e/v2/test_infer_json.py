"""Bytes behind JSON, and numbers in it, as one may write and read them."""

from __future__ import annotations

import json
import math
from typing import Any

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


def test_data_may_be_nested_in_any_way(service: Service) -> None:
    data = [[0.5], [[1.5, [2.5]], []], -0.3]
    output = Answer.of(infer(service, document(tensor("FP32", [2, 2], data=data)))).output
    assert output["data"] == [0, 2, 2, 0]
    assert math.copysign(1, output["data"][3]) == -1


def test_names_may_be_quoted(service: Service) -> None:
    head = json.dumps(document(tensor("FP32", [1], data=[2.5]))).encode()
    for path in ("/v2/models/onnx%5Fround/infer", "/v2/models/%6Fnnx_round/versions/22/infer"):
        assert Answer.of(service.request("POST", path, head)).head["model_name"] == "onnx_round"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, b"[NaN,Infinity,-Infinity,-0.0,2.0]"),
        ({"strict_json": False}, b"[NaN,Infinity,-Infinity,-0.0,2.0]"),
        ({"strict_json": True}, b'["NaN","Infinity","-Infinity",-0.0,2.0]'),
    ],
    ids=["tokens", "tokens on demand", "strict"],
)
def test_special_values_are_tokens_or_strings(
    service: Service, parameters: dict[str, Any], text: bytes
) -> None:
    data = ["NaN", "Infinity", "-Infinity", -0.3, 1.5]  # read as /round reads them
    request = document(tensor("BF16", [5], data=data), parameters=parameters)
    assert b'"data":' + text in infer(service, request).content


def test_a_long_output_is_strict_too(service: Service) -> None:
    data: list[Any] = [0.5] * 70_000 + ["NaN"]  # more than is written in one block
    request = document(tensor("FP32", [70_001], data=data), parameters={"strict_json": True})
    assert infer(service, request).content.endswith(b',0.0,"NaN"]}]}')
