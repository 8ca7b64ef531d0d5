"""Every way in which an inference is refused: status, the one line, and a good request after it."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import CASES as DIALECTS
from support.http.inference_form import (
    DIRECTML,
    EVEN,
    GOOD,
    INLINE,
    PAYLOAD,
    binary,
    document,
    of,
    tensor,
)
from support.v2.callers import Caller

REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 40}


def parameters(**values: Any) -> dict[str, Any]:
    return document(INLINE, parameters=values)


# What is sent, what follows it, to which model and version; status, and what the error says.
CASES: dict[str, tuple[dict[str, Any], bytes | None, str, str, int, str]] = {
    "inputs-empty": ({"inputs": []}, None, "round", "", 400, "exactly one, X, got none"),
    "two-inputs": ({"inputs": [INLINE, INLINE]}, None, "round", "", 400, 'got "X", "X"'),
    "two-inputs-of-other-names": ({"inputs": [{**INLINE, "name": "input-0"}, INLINE]}, None,
                                  "round", "", 400, 'exactly one, X, got "input-0", "X"'),
    "two-inputs-to-directml": ({"inputs": [INLINE, INLINE]}, None, DIRECTML, "", 400,
                               "exactly one, InputTensor"),
    "shape-negative": (of(shape=[-2]), None, "round", "", 400, "at least 0"),
    "rank-33": (of(shape=[1] * 33), None, "round", "", 400, "32 dimensions"),
    "rank-3-to-2_1": (document(tensor("FP32", [1, 1, 2], "InputTensor", data=[1, 2])), None,
                      DIRECTML, "2_1", 400, "directml 2_1: ELEMENT_WISE_ROUND takes"),
    "rank-0-to-directml": (document(tensor("FP32", [], "InputTensor", data=1)), None, DIRECTML, "",
                           400, "1 to 8 dimensions, got 0"),
    "zero-size-to-directml": (document(tensor("FP32", [0], "InputTensor", data=[])), None,
                              DIRECTML, "", 400, "at least 1"),
    "datatype": (of(datatype="FP8"), None, "round", "", 400, 'inputs.0.datatype: got "FP8"; model'),
    "datatype-case": (of(datatype="fp32"), None, "round", "", 400, 'got "fp32"'),
    "bool": (of(datatype="BOOL", data=[True, False]), None, "round", "", 400, 'got "BOOL"'),
    "int-to-onnx": (of(datatype="INT32", data=[1, 2]), None, "onnx_round", "", 400,
                    "got INT32; model onnx_round version 22 takes FP16, FP32, FP64, BF16"),
    "float-to-onnx": (of(datatype="FLOAT"), None, "onnx_round", "", 400,
                      'got "FLOAT"; model onnx_round version 22 takes FP16, FP32, FP64, BF16'),
    "bf16-to-onnx-11": (document(binary("BF16", [2], 4)), PAYLOAD[:4], "onnx_round", "11", 400,
                        "got BF16; model onnx_round version 11 takes FP16, FP32, FP64"),
    "fp64-to-directml": (document(tensor("FP64", [1], "InputTensor", data=[1])), None, DIRECTML, "",
                         400, "got FP64; model directml_element_wise_round version 6_4 takes"),
    "fp8-to-onnx": (of(datatype="UINT8", data=[1, 2], parameters={"dtype": "float8_e5m2"}), None,
                    "onnx_round", "", 400, "got UINT8 with the parameter dtype float8_e5m2"),
    "dtype-unknown": (of(datatype="UINT8", data=[1], parameters={"dtype": "float8"}), None, "round",
                      "", 400, "float8_e4m3fn"),
    "dtype-of-another": (of(parameters={"dtype": "float8_e5m2"}), None, "round", "", 400,
                         "float32"),
    "two-dtypes": (document({**INLINE, "parameters": {"dtype": "float32"}},
                            parameters={"dtype": "float64"}), None, "round", "", 400,
                   "differs between the request and the input"),
    "short": (GOOD, PAYLOAD[:-1], "round", "", 400, "40 bytes"),
    "long": (GOOD, PAYLOAD + b"x", "round", "", 400, "40 bytes"),
    "nothing-follows": (GOOD, b"", "round", "", 400, "40 bytes"),
    "timeout": (parameters(timeout="1"), None, "round", "", 400, "parameters.timeout"),
    "rounding": (parameters(rounding="up"), None, "round", "", 400,
                 'parameters.rounding: got "up"; did you mean toward_positive? ieee754'),
    "rounding-number": (parameters(rounding=0), None, "round", "", 400, "parameters.rounding"),
    "rounding-bool": (parameters(rounding=True), None, "round", "", 400, "parameters.rounding"),
    "openvino-case": (parameters(mode="HALF_TO_EVEN"), None, "openvino_round", "", 400,
                      "half_to_even"),
    "directml-mode": (document({**INLINE, "name": "InputTensor"},
                               parameters={"rounding_mode": 3}), None, DIRECTML, "", 400,
                      "parameters.rounding_mode: got 3; directml"),
    "directml-float-mode": (document({**INLINE, "name": "InputTensor"},
                                     parameters={"rounding_mode": 1.0}), None, DIRECTML, "", 400,
                            "parameters.rounding_mode"),
    "other-output": (document(INLINE, outputs=[{"name": "Z"}]), None, "round", "", 400,
                     'outputs.0.name: the output of model round is Y, got "Z"'),
    "output-twice": (document(INLINE, outputs=[{"name": "Y"}] * 2), None, "round", "", 400, "Y"),
    "no-output": (document(INLINE, outputs=[{"name": "Y"}, {"name": "Z"}]), None, "round", "", 400,
                  'outputs: model round has exactly one, Y, got "Y", "Z"'),
    "classes": (document(INLINE, outputs=[{"name": "Y", "parameters": {"classification": 1}}]),
                None, "round", "", 400, "is not supported"),
    "unknown-model": (document(INLINE), None, "torch_round", "", 404, 'no model "torch_round"'),
    "unknown-version": (document(INLINE), None, "round", "2", 404, "it has 1"),
    "onnx-version": (document(INLINE), None, "onnx_round", "12", 404, "it has 11, 22"),
    "memory": (document(tensor("FP32", [10], parameters=REGION)), None, "round", "", 501,
               "without --shared-memory-prefix (TENSOR_ROUND_SHARED_MEMORY_PREFIX)"),
    "memory-of-another-size": (document(tensor("FP32", [1], parameters=REGION)), None, "round", "",
                               501, "PREFIX"),
    "memory-out": (document(INLINE, outputs=[{"name": "Y", "parameters": REGION}]), None, "round",
                   "", 501, "PREFIX"),
    "overflowing": (document(binary("FP32", [1 << 32, 1 << 32], 0)), b"", "round", "", 400,
                    "bytes"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "payload", "model", "version", "status", "says"), CASES.values(), ids=CASES
)
def test_refusals(
    caller: Caller,
    request_: dict[str, Any],
    payload: bytes | None,
    model: str,
    version: str,
    status: int,
    says: str,
) -> None:
    outcome = caller.infer(request_, payload, model, version)
    assert outcome.status == status, outcome.error
    assert says in outcome.error
    assert len(outcome.error) < 400
    assert caller.infer(GOOD, PAYLOAD).payload == EVEN.tobytes()


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
def test_another_models_mode_is_not_passed_over(caller: Caller, model: str, name: str) -> None:
    source = {**INLINE, "name": MODELS[model].input}
    request = document(source, parameters={name: MODES[name]})
    outcome = caller.infer(request, model=model)
    assert outcome.status == 400
    assert f"parameters.{name}: model {model}" in outcome.error


@pytest.mark.parametrize("place", ["inputs", "outputs"])
def test_a_mode_in_the_wrong_place_is_not_passed_over(caller: Caller, place: str) -> None:
    request = document({**INLINE}, outputs=[{"name": "Y"}])
    request[place][0]["parameters"] = {"rounding": "toward_zero"}
    outcome = caller.infer(request)
    assert outcome.status == 400
    assert "parameters of the request" in outcome.error
