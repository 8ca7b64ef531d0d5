"""Inferences that are refused: status, the one line, and a good request after it.

The rules of the dialects are those of every way to round.
"""

from __future__ import annotations

from typing import Any

import pytest

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
FP8 = {"dtype": "float8_e5m2"}
OTHERS = {"inputs": [{**INLINE, "name": "input-0"}, INLINE]}
OF_FP8 = of(datatype="UINT8", data=[1, 2], parameters=FP8)


def with_(**values: Any) -> dict[str, Any]:
    return document(INLINE, parameters=values)


def to(*outputs: dict[str, Any]) -> dict[str, Any]:
    return document(INLINE, outputs=[*outputs])


FLOAT8 = of(datatype="UINT8", data=[1], parameters={"dtype": "float8"})
F64, F32 = {"dtype": "float64"}, {**INLINE, "parameters": {"dtype": "float32"}}
DOWN = {"rounding": "toward_negative"}
CLASSES = {"name": "Y", "parameters": {"classification": 1}}
# By model: what is sent, and what the error says.
REFUSED: dict[str, dict[str, tuple[dict[str, Any], str]]] = {
    "round": {
        "no-input": ({"inputs": []}, "exactly one, X, got none"),
        "two-inputs": ({"inputs": [INLINE, INLINE]}, 'got "X", "X"'),
        "two-inputs-of-other-names": (OTHERS, 'exactly one, X, got "input-0", "X"'),
        "shape-negative": (of(shape=[-2]), "at least 0"),
        "rank-33": (of(shape=[1] * 33), "32 dimensions"),
        "datatype": (of(datatype="FP8"), 'inputs.0.datatype: got "FP8"; model'),
        "bool": (of(datatype="BOOL", data=[True, False]), 'got "BOOL"'),
        "dtype-unknown": (FLOAT8, "float8_e4m3fn"),
        "dtype-of-another": (of(parameters=FP8), "float32"),
        "two-dtypes": (document(F32, parameters=F64), "differs between the request and the input"),
        "timeout": (with_(timeout="1"), "parameters.timeout"),
        "rounding": (with_(rounding="up"), 'got "up"; did you mean toward_positive? ieee754'),
        "mode-of-the-input": (of(parameters=DOWN), "belongs to the parameters of the request"),
        "mode-of-the-output": (to({"name": "Y", "parameters": DOWN}), "parameters of the request"),
        "other-output": (
            to({"name": "Z"}),
            'outputs.0.name: the output of model round is Y, got "Z"',
        ),
        "output-twice": (to({"name": "Y"}, {"name": "Y"}), "Y"),
        "two-outputs": (to({"name": "Y"}, {"name": "Z"}), 'round has exactly one, Y, got "Y", "Z"'),
        "classes": (to(CLASSES), "is not supported"),
    },
    "onnx_round": {
        "mode-of-none": (with_(op="ceil"), "parameters.op: model onnx_round has no modes"),
        "fp8-to-onnx": (OF_FP8, "got UINT8 with the parameter dtype float8_e5m2"),
    },
    "openvino_round": {"another-mode": (with_(**DOWN), "rounding: model openvino_round has mode")},
    DIRECTML: {
        "directml-mode": (with_(rounding_mode=3), "parameters.rounding_mode: got 3; directml"),
    },
}
#: The model, and its version behind an at sign; with the bytes that follow and the status.
OTHERWISE: dict[str, tuple[str, dict[str, Any], str, bytes | None, int]] = {
    "short": ("round", GOOD, "40 bytes", PAYLOAD[:-1], 400),
    "long": ("round", GOOD, "40 bytes", PAYLOAD + b"x", 400),
    "overflowing": ("round", document(binary("FP32", [1 << 32, 1 << 32], 0)), "bytes", b"", 400),
    "unknown-model": ("torch_round", document(INLINE), 'no model "torch_round"', None, 404),
    "unknown-version": ("round@2", document(INLINE), "it has 1", None, 404),
    "memory": (
        *("round", document(tensor("FP32", [10], parameters=REGION))),
        "without --shared-memory-prefix (TENSOR_ROUND_SHARED_MEMORY_PREFIX)",
        *(None, 501),
    ),
    "memory-out": ("round", to({"name": "Y", "parameters": REGION}), "PREFIX", None, 501),
}
CASES: dict[str, Any] = {
    name: (model, *case, None, 400)
    for model, some in REFUSED.items()
    for name, case in some.items()
} | OTHERWISE


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refusals(caller: Caller, case: tuple[str, dict[str, Any], str, bytes | None, int]) -> None:
    named, request, says, payload, status = case
    model, _, version = named.partition("@")
    outcome = caller.infer(request, payload, model, version)
    assert outcome.status == status, outcome.error
    assert says in outcome.error
    assert len(outcome.error) < 400
    assert caller.infer(GOOD, PAYLOAD).payload == EVEN.tobytes()
