"""Every way in which an inference is refused: status, the one line, and a good request after it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from support.cases.descriptors import CASES as DIALECTS
from support.cases.inference_refusals import DIRECTML, GOOD, INLINE, PAYLOAD, of
from support.http.inference_form import (
    EVEN,
    Answer,
    binary,
    document,
    error_of,
    infer,
    tensor,
)
from support.services.server import Service

REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 40}


def parameters(**values: Any) -> dict[str, Any]:
    return document(INLINE, parameters=values)


# What is sent, what follows it, to which model and version; status, and what the error says.
CASES: dict[str, tuple[Any, bytes | None, str, int, str]] = {
    "empty-body": (b"", None, "round", 400, "empty"),
    "not-json": (b"{", None, "round", 400, "not JSON"),
    "no-object": (b"[]", None, "round", 400, "must be a JSON object"),
    "key-twice": (b'{"inputs":[],"inputs":[]}', None, "round", 400, "twice"),
    "deep": (b'{"inputs":' + b"[" * 5000, None, "round", 400, "deeper"),
    "not-utf-8": (b'{"id":"\xff"}', None, "round", 400, "UTF-8"),
    "no-inputs": ({}, None, "round", 400, "inputs: is required"),
    "inputs-empty": ({"inputs": []}, None, "round", 400, "exactly one, X, got none"),
    "two-inputs": ({"inputs": [INLINE, INLINE]}, None, "round", 400, 'got "X", "X"'),
    "two-inputs-of-other-names": ({"inputs": [{**INLINE, "name": "input-0"}, INLINE]}, None,
                                  "round", 400, 'exactly one, X, got "input-0", "X"'),
    "two-inputs-to-directml": ({"inputs": [INLINE, INLINE]}, None, DIRECTML, 400,
                               "exactly one, InputTensor"),
    "shape-text": (of(shape="2"), None, "round", 400, "inputs.0.shape"),
    "shape-negative": (of(shape=[-2]), None, "round", 400, "at least 0"),
    "shape-float": (of(shape=[2.0]), None, "round", 400, "inputs.0.shape.0"),
    "rank-33": (of(shape=[1] * 33), None, "round", 400, "32 dimensions"),
    "rank-3-to-2_1": (document(tensor("FP32", [1, 1, 2], "InputTensor", data=[1, 2])), None,
                      DIRECTML + "/versions/2_1", 400, "directml 2_1: ELEMENT_WISE_ROUND takes"),
    "rank-0-to-directml": (document(tensor("FP32", [], "InputTensor", data=1)), None, DIRECTML,
                           400, "1 to 8 dimensions, got 0"),
    "zero-size-to-directml": (document(tensor("FP32", [0], "InputTensor", data=[])), None,
                              DIRECTML, 400, "at least 1"),
    "datatype": (of(datatype="FP8"), None, "round", 400, 'inputs.0.datatype: model round'),
    "datatype-case": (of(datatype="fp32"), None, "round", 400, 'got "fp32"'),
    "bytes": (of(datatype="BYTES", data=["a", "b"]), None, "round", 400, 'got "BYTES"'),
    "bool": (of(datatype="BOOL", data=[True, False]), None, "round", 400, 'got "BOOL"'),
    "int-to-onnx": (of(datatype="INT32", data=[1, 2]), None, "onnx_round", 400,
                    "model onnx_round version 22 takes FP16, FP32, FP64, BF16, got INT32"),
    "float-to-onnx": (of(datatype="FLOAT"), None, "onnx_round", 400,
                      'takes FP16, FP32, FP64, BF16, got "FLOAT"'),
    "bf16-to-onnx-11": (of(datatype="BF16"), None, "onnx_round/versions/11", 400,
                        "model onnx_round version 11 takes FP16, FP32, FP64, got BF16"),
    "fp64-to-directml": (document(tensor("FP64", [1], "InputTensor", data=[1])), None, DIRECTML,
                         400, "version 6_4 takes FP32, FP16, got FP64"),
    "fp8-to-onnx": (of(datatype="UINT8", data=[1, 2], parameters={"dtype": "float8_e5m2"}), None,
                    "onnx_round", 400, "got UINT8 with the parameter dtype float8_e5m2"),
    "dtype-unknown": (of(datatype="UINT8", parameters={"dtype": "float8"}), None, "round", 400,
                      "float8_e4m3fn"),
    "dtype-of-another": (of(parameters={"dtype": "float8_e5m2"}), None, "round", 400, "float32"),
    "dtype-number": (of(parameters={"dtype": 8}), None, "round", 400, "dtype of a FP32"),
    "two-dtypes": (document({**INLINE, "parameters": {"dtype": "float32"}},
                            parameters={"dtype": "float64"}), None, "round", 400,
                   "differs between the request and the input"),
    "no-source": (document(tensor("FP32", [2])), None, "round", 400, "exactly one of data"),
    "two-sources": (of(parameters={"binary_data_size": 8}), None, "round", 400, "got 2"),
    "few-numbers": (of(data=[1]), None, "round", 400, "has 1 elements"),
    "many-numbers": (of(data=[1, 2, 3]), None, "round", 400, "has 3 elements"),
    "number-for-array": (of(data=1), None, "round", 400, "inputs.0.data: must be an array"),
    "text": (of(data=["0.5", 1]), None, "round", 400, "inputs.0.data.0: must be a number"),
    "boolean": (of(data=[[True], 1]), None, "round", 400, "inputs.0.data.0.0: must be a number"),
    "null": (of(data=[1, None]), None, "round", 400, "inputs.0.data.1"),
    "object": (of(data=[1, {}]), None, "round", 400, "inputs.0.data.1"),
    "fraction": (of(datatype="INT8", data=[1, 1.5]), None, "round", 400, "from -128 to 127"),
    "too-large-integer": (of(datatype="UINT8", data=[1, 256]), None, "round", 400, "0 to 255"),
    "binary-size": (document(binary("FP32", [10], 44)), PAYLOAD + bytes(4), "round", 400,
                    "40 bytes by its shape and datatype, 44 by its parameters"),
    "short": (GOOD, PAYLOAD[:-1], "round", 400, "must have 40 bytes"),
    "long": (GOOD, PAYLOAD + b"x", "round", 400, "must have 40 bytes"),
    "nothing-follows": (GOOD, b"", "round", 400, "must have 40 bytes"),
    "length-not-stated": (json.dumps(GOOD).encode() + PAYLOAD, None, "round", 400, "JSON"),
    "bytes-after-numbers": (document(INLINE), b"x", "round", 400, "0 bytes"),
    "id": (document(INLINE, id=1), None, "round", 400, "id: must be a string"),
    "parameter-null": (parameters(a=None), None, "round", 400, "parameters.a"),
    "parameter-object": (parameters(a={}), None, "round", 400, "parameters.a"),
    "timeout": (parameters(timeout="1"), None, "round", 400, "parameters.timeout"),
    "rounding": (parameters(rounding="up"), None, "round", 400, "parameters.rounding: ieee754"),
    "rounding-number": (parameters(rounding=0), None, "round", 400, "parameters.rounding"),
    "rounding-bool": (parameters(rounding=True), None, "round", 400, "parameters.rounding"),
    "openvino-case": (parameters(mode="HALF_TO_EVEN"), None, "openvino_round", 400, "half_to_even"),
    "directml-mode": (document({**INLINE, "name": "InputTensor"},
                               parameters={"rounding_mode": 3}), None, DIRECTML, 400,
                      "parameters.rounding_mode: directml"),
    "directml-float-mode": (document({**INLINE, "name": "InputTensor"},
                                     parameters={"rounding_mode": 1.0}), None, DIRECTML, 400,
                            "parameters.rounding_mode"),
    "outputs": (document(INLINE, outputs={}), None, "round", 400, "outputs: must be an array"),
    "other-output": (document(INLINE, outputs=[{"name": "Z"}]), None, "round", 400,
                     'outputs.0.name: the output of model round is Y, got "Z"'),
    "output-twice": (document(INLINE, outputs=[{"name": "Y"}] * 2), None, "round", 400, "Y"),
    "no-output": (document(INLINE, outputs=[{"name": "Y"}, {"name": "Z"}]), None, "round", 400,
                  'outputs: model round has exactly one, Y, got "Y", "Z"'),
    "strict-json-text": (parameters(strict_json="true"), None, "round", 400,
                         "parameters.strict_json: must be true or false"),
    "classes": (document(INLINE, outputs=[{"name": "Y", "parameters": {"classification": 1}}]),
                None, "round", 400, "is not supported"),
    "binary-wish": (document(INLINE, outputs=[{"name": "Y", "parameters": {"binary_data": 1}}]),
                    None, "round", 400, "true or false"),
    "unknown-model": (document(INLINE), None, "torch_round", 404, 'no model "torch_round"'),
    "unknown-version": (document(INLINE), None, "round/versions/2", 404, "it has 1"),
    "onnx-version": (document(INLINE), None, "onnx_round/versions/12", 404, "it has 11, 22"),
    "memory": (document(tensor("FP32", [10], parameters=REGION)), None, "round", 501,
               "without --shared-memory-prefix (TENSOR_ROUND_SHARED_MEMORY_PREFIX)"),
    "memory-of-another-size": (document(tensor("FP32", [1], parameters=REGION)), None, "round",
                               501, "PREFIX"),
    "memory-out": (document(INLINE, outputs=[{"name": "Y", "parameters": REGION}]), None, "round",
                   501, "PREFIX"),
    "too-large": (document(binary("FP32", [1 << 31], 1 << 33)), b"", "round", 413, "limit"),
    "overflowing": (document(binary("FP32", [1 << 32, 1 << 32], 0)), b"", "round", 400, "bytes"),
    "overflowing-numbers": (of(shape=[1 << 32, 1 << 32]), None, "round", 413, "limit"),
    "beyond-any-size": (of(shape=[1 << 64]), None, "round", 400, "inputs.0"),
    "long-head": (json.dumps(GOOD).encode() + b" " * (64 << 10), PAYLOAD, "round", 413, "65536"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "payload", "model", "status", "says"), CASES.values(), ids=CASES
)
def test_refusals(
    service: Service, request_: Any, payload: bytes | None, model: str, status: int, says: str
) -> None:
    reply = infer(service, request_, payload, model)
    text = error_of(reply)
    assert reply.status == status, text
    assert says in text
    assert len(text) < 400
    assert Answer.of(infer(service, GOOD, PAYLOAD)).payload == EVEN.tobytes()


MODELS = {cases.model.name: cases.model for cases in DIALECTS.values()}
MODES: dict[str, str] = {
    cases.model.mode_parameter: next(iter(cases.modes))
    for cases in DIALECTS.values()
    if cases.model.mode_parameter is not None
}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (name, mode)
        for name, model in MODELS.items()
        for mode in MODES
        if mode != model.mode_parameter
    ],
)
def test_another_models_mode_is_not_passed_over(service: Service, model: str, name: str) -> None:
    source = {**INLINE, "name": MODELS[model].input}
    request = document(source, parameters={name: MODES[name]})
    reply = infer(service, request, model=model)
    assert reply.status == 400
    assert f"parameters.{name}: model {model}" in error_of(reply)


@pytest.mark.parametrize("place", ["inputs", "outputs"])
def test_a_mode_in_the_wrong_place_is_not_passed_over(service: Service, place: str) -> None:
    request = document({**INLINE}, outputs=[{"name": "Y"}])
    request[place][0]["parameters"] = {"rounding": "toward_zero"}
    reply = infer(service, request)
    assert reply.status == 400
    assert "parameters of the request" in error_of(reply)


@pytest.mark.parametrize(
    "head",
    [
        b'{"inputs":"' + b"SECRET" * 100 + b'"}',
        b'{"inputs":[{"name":"' + b"SECRET" * 100 + b'"}]}',
        json.dumps(of(data=["SECRET", 1])).encode(),
        b"SECRET" * 100,
    ],
)
def test_errors_echo_little(service: Service, head: bytes) -> None:
    text = error_of(infer(service, head))
    assert "SECRET" * 10 not in text
    assert len(text) < 200


@pytest.mark.parametrize("shape", [[1 << 62, 1 << 62], [0, 1 << 62, 1 << 62]], ids=str)
def test_shapes_beyond_64_bits(service: Service, shape: list[int]) -> None:
    request = document(binary("FP64", shape, 0), parameters={"binary_data_output": True})
    reply = infer(service, request, b"")
    assert reply.status == (200 if math.prod(shape) == 0 else 400)
