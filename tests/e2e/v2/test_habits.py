"""What clients made for other servers send, and what parsers of strict JSON can read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import Answer, document, infer, tensor
from support.services.server import Service

STRICT: dict[str, Any] = {"parameters": {"strict_json": True}}


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


@pytest.mark.parametrize("name", ["input-0", "input_1", "INPUT__0", "predict", "Y", ""])
@pytest.mark.parametrize(
    "model", ["round", "onnx_round", "openvino_round", "directml_element_wise_round"]
)
def test_the_only_input_may_have_any_name(service: Service, model: str, name: str) -> None:
    answer = Answer.of(
        infer(service, document(tensor("FP32", [2], name, data=[0.5, 1.5])), None, model)
    )
    assert answer.output["data"] == [0.0, 2.0]
    assert answer.output["name"] == ("OutputTensor" if model.startswith("directml") else "Y")
