"""Inference: every form of the one tensor, every parameter, every model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import AWAY, EVEN, OF_X, ZERO, X, binary, document, tensor
from support.v2.callers import Caller
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded

DIRECTML = "directml_element_wise_round"


def test_the_response(caller: Caller) -> None:
    outcome = caller.infer(document(OF_X, id="a/b c"), X.tobytes())
    assert (outcome.head["model_name"], outcome.head["model_version"]) == ("round", "1")
    assert outcome.head["id"] == "a/b c"
    assert outcome.output == {"name": "Y", "datatype": "FP32", "shape": [10], "parameters": {}}
    assert outcome.payload == EVEN.tobytes()
    assert outcome.fields["execution-backend"] in ("numpy", "cupy")
    assert outcome.fields["x-request-id"]


@pytest.mark.parametrize("count", [0, 1, 1 << 10, 1 << 14, 1 << 18, 3 << 20])
def test_tensors_of_all_lengths(caller: Caller, count: int) -> None:
    x = np.random.default_rng(count).normal(scale=9, size=count).astype("<f4")
    request = document(binary("FP32", [count], x.nbytes))
    for _ in range(2):
        assert caller.infer(request, x.tobytes()).payload == np.rint(x).tobytes()


@pytest.mark.parametrize("shape", [[0], [3, 0], [0, 1 << 62, 1 << 62]], ids=str)
def test_zero_bytes(caller: Caller, shape: list[int]) -> None:
    outcome = caller.infer(document(binary("FP16", shape, 0)), b"")
    assert (outcome.output["shape"], outcome.payload) == (shape, b"")


NUMBERS: dict[str, tuple[Any, Any]] = {
    "FP32": ([0.5, 1.5, -0.25, 2.6], [0, 2, -0.0, 3]),
    "FP64": ([0.5, 1e300, -0.25], [0, 1e300, -0.0]),
    "INT8": ([-128, 0, 127], [-128, 0, 127]),
    "INT32": ([-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    "INT64": ([-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    "UINT16": ([0, 2**16 - 1], [0, 2**16 - 1]),
    "UINT64": ([0, 2**53 + 1, 2**64 - 1], [0, 2**53 + 1, 2**64 - 1]),
}


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_in_the_request(caller: Caller, datatype: str) -> None:
    given, right = NUMBERS[datatype]
    outcome = caller.infer(document(tensor(datatype, [1, len(given)], data=given)))
    dtype = datatype.lower().replace("fp", "float")
    assert outcome.payload == np.array(right, dtype).tobytes()
    assert outcome.output["shape"] == [1, len(given)]


def test_a_scalar(caller: Caller) -> None:
    outcome = caller.infer(document(tensor("FP64", [], data=[7.5])))
    assert (outcome.output["shape"], outcome.payload) == ([], np.array(8.0).tobytes())


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("model", ["round", "openvino_round"])
def test_fp8(caller: Caller, model: str, dtype: str) -> None:
    patterns = samples(dtype)
    source = binary("UINT8", [256], 256)
    source["parameters"]["dtype"] = dtype
    outcome = caller.infer(document(source), patterns.tobytes(), model)
    assert outcome.payload == rounded(patterns, dtype, "ties_to_even").tobytes()
    assert outcome.output["datatype"] == "UINT8"
    assert outcome.output["parameters"] == {"dtype": dtype}


@pytest.mark.parametrize("place", ["input", "request", "both"])
def test_where_dtype_may_stand(caller: Caller, place: str) -> None:
    dtype: dict[str, Any] = {"parameters": {"dtype": "float8_e4m3fn"}}
    own = dtype if place != "request" else {}
    request = document(
        tensor("UINT8", [1], data=[0x3A], **own), **(dtype if place != "input" else {})
    )
    assert caller.infer(request).payload == b"\x38"  # 1.25 -> 1.0


# Every parameter a dialect has, under every name that only some model knows.
MODES: list[tuple[str, dict[str, Any], Any]] = [
    ("round", {"rounding": "ties_to_away"}, AWAY),
    ("round", {"unknown": "parameter", "priority": 7, "timeout": 0, "a": 0.5, "b": True}, EVEN),
    ("openvino_round", {"mode": "half_to_even"}, EVEN),
    ("openvino_round", {"mode": "half_away_from_zero"}, AWAY),
    (DIRECTML, {"rounding_mode": "HALVES_TO_NEAREST_EVEN"}, EVEN),
    (DIRECTML, {"rounding_mode": 2}, AWAY),
    (DIRECTML, {"rounding_mode": "TOWARD_ZERO"}, ZERO),
]


@pytest.mark.parametrize(("model", "parameters", "expected"), MODES)
def test_modes(caller: Caller, model: str, parameters: dict[str, Any], expected: Any) -> None:
    request = document(OF_X, parameters=parameters)
    assert caller.infer(request, X.tobytes(), model).payload == expected.tobytes()


@pytest.mark.parametrize(
    ("model", "version", "shape"),
    [
        (DIRECTML, "2_1", [1, 1, 2, 5]),
        (DIRECTML, "6_4", [1] * 7 + [10]),
        ("onnx_round", "22", [10, 1] + [1] * 30),
        ("onnx_round", "11", []),
        ("openvino_round", "5", [0]),
    ],
)
def test_every_rank_the_dialect_allows(
    caller: Caller, model: str, version: str, shape: list[int]
) -> None:
    payload = X[: math.prod(shape)].tobytes()
    request = document(binary("FP32", shape, len(payload)))
    outcome = caller.infer(request, payload, model, version)
    assert outcome.payload == EVEN[: math.prod(shape)].tobytes()
    assert (outcome.head["model_version"], outcome.output["shape"]) == (version, shape)


def test_the_newest_version_is_the_default(caller: Caller) -> None:
    for model, version in (("onnx_round", "22"), (DIRECTML, "6_4")):
        outcome = caller.infer(document(tensor("FP32", [1], data=[1.5])), model=model)
        assert outcome.head["model_version"] == version


@pytest.mark.parametrize("name", ["input-0", "input_1", "INPUT__0", "predict", "Y", ""])
@pytest.mark.parametrize("model", ["round", "onnx_round", "openvino_round", DIRECTML])
def test_the_only_input_may_have_any_name(caller: Caller, model: str, name: str) -> None:
    outcome = caller.infer(document(tensor("FP32", [2], name, data=[0.5, 1.5])), None, model)
    assert outcome.payload == np.array([0, 2], "<f4").tobytes()
    assert outcome.output["name"] == ("OutputTensor" if model == DIRECTML else "Y")


def test_ids_come_back(caller: Caller) -> None:
    fields = {"X-Request-ID": "an-id-of-the-test"}
    for model in ("round", "none"):  # answered, and refused
        outcome = caller.infer(document(OF_X), X.tobytes(), model, fields=fields)
        assert outcome.fields["x-request-id"] == "an-id-of-the-test"
    assert caller.ask("ServerLive", fields).fields["x-request-id"] == "an-id-of-the-test"
