"""Inference: every form of the one tensor, what stands beside it, what is refused, and its guards.

Dtypes, modes, shapes and rules of dialects are those of every way to round.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    AWAY,
    DIRECTML,
    EVEN,
    GOOD,
    INLINE,
    OF_X,
    PAYLOAD,
    ZERO,
    X,
    binary,
    document,
    of,
    tensor,
)
from support.keys import needing
from support.services.server import Service
from support.v2.callers import Caller


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


def test_zero_bytes_of_a_vast_shape(caller: Caller) -> None:
    shape = [0, 1 << 62, 1 << 62]
    outcome = caller.infer(document(binary("FP16", shape, 0)), b"")
    assert (outcome.output["shape"], outcome.payload) == (shape, b"")


NUMBERS: dict[str, tuple[Any, Any]] = {
    "FP32": ([0.5, 1.5, -0.25, 2.6], [0, 2, -0.0, 3]),
    "UINT64": ([0, 2**53 + 1, 2**64 - 1], [0, 2**53 + 1, 2**64 - 1]),
}


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_in_the_request(caller: Caller, datatype: str) -> None:
    given, right = NUMBERS[datatype]
    outcome = caller.infer(document(tensor(datatype, [1, len(given)], data=given)))
    dtype = datatype.lower().replace("fp", "float")
    assert outcome.payload == np.array(right, dtype).tobytes()
    assert outcome.output["shape"] == [1, len(given)]


@pytest.mark.parametrize("place", ["input", "request", "both"])
def test_dtype_may_stand_beside_the_input_or_the_request(caller: Caller, place: str) -> None:
    dtype: dict[str, Any] = {"parameters": {"dtype": "float8_e4m3fn"}}
    own = dtype if place != "request" else {}
    request = document(
        tensor("UINT8", [1], data=[0x3A], **own), **(dtype if place != "input" else {})
    )
    outcome = caller.infer(request)
    assert outcome.payload == b"\x38"  # 1.25 -> 1.0
    assert outcome.output["datatype"] == "UINT8"
    assert outcome.output["parameters"] == {"dtype": "float8_e4m3fn"}


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        ("round", {"rounding": "ties_to_away"}, AWAY),
        ("round", {"unknown": "parameter", "priority": 7, "timeout": 0, "a": 0.5, "b": True}, EVEN),
        ("round", {"sequence_id": 3, "sequence_start": True, "sequence_end": False}, EVEN),
        ("round", {"axis": 1, "block_size": 2, "saturate": 1, "precision": "x"}, EVEN),
        (DIRECTML, {"rounding_mode": 2}, AWAY),
        (DIRECTML, {"rounding_mode": "DML_ROUNDING_MODE_TOWARD_ZERO"}, ZERO),
    ],
)
def test_parameters(caller: Caller, model: str, parameters: Any, expected: Any) -> None:
    request = document(OF_X, parameters=parameters)
    assert caller.infer(request, X.tobytes(), model).payload == expected.tobytes()


def test_three_halves_to_directml(caller: Caller) -> None:
    # DirectML rounds buffers up to 4 bytes; the protocol's tensors have none but their own.
    x = np.array([0.5, 1.5, -2.5], "<f2")
    request = document(binary("FP16", [1, 1, 1, 3], 6))
    outcome = caller.infer(request, x.tobytes(), DIRECTML, "2_1")
    assert outcome.payload == np.rint(x).tobytes()


@pytest.mark.parametrize("name", ["input-0", "INPUT__0", "Y", ""])
@pytest.mark.parametrize("model", ["round", DIRECTML])
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
    "cast": {"type-as-number": (with_(to=3), "parameters.to: must be a data type's name, got 3")},
    "openvino_convert": {
        "attribute-of-another": (with_(to="float16", saturate=1), "model openvino_convert has to"),
    },
    "directml_element_wise_quantize_linear": {
        "sizes-of-their-own": (
            {
                "inputs": [
                    tensor("FP32", [2, 2], "InputTensor", data=[1] * 4),
                    tensor("FP32", [1, 2], "ScaleTensor", data=[1] * 2),
                    tensor("INT8", [2, 1], "ZeroPointTensor", data=[1] * 2),
                ]
            },
            "shape: must have the sizes [2, 2] beside the other inputs",
        ),
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
        "round",
        document(tensor("FP32", [10], parameters=REGION)),
        "without --shared-memory-prefix (TENSOR_ROUND_SHARED_MEMORY_PREFIX)",
        None,
        501,
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


MIB = 1 << 20


@pytest.mark.parametrize(("field", "scheme"), [("Authorization", "Bearer "), ("X-API-Key", "")])
def test_keys(call: type[Caller], tmp_path: Path, field: str, scheme: str) -> None:
    key = {field: f"{scheme}open sesame"}
    with Service(*needing(tmp_path, "open sesame")) as service:
        caller = call(service)
        for wrong in ({}, {field: f"{scheme}close sesame"}):
            outcome = caller.infer(GOOD, X.tobytes(), fields=wrong)
            assert outcome.status == 401
            assert outcome.error
            for what in ("ServerMetadata", "ModelMetadata", "ModelStatistics", "RepositoryIndex"):
                assert caller.ask(what, wrong).status == 401
        assert caller.ask("ServerLive").head == {"live": True}
        assert caller.ask("ServerReady").head == {"ready": True}
        assert caller.infer(GOOD, X.tobytes(), fields=key).payload == EVEN.tobytes()
        assert caller.ask("ModelMetadata", key, name="round").head["name"] == "round"


def large(nbytes: int) -> dict[str, object]:
    """A request for that many bytes."""
    return document(binary("INT8", [nbytes], nbytes))


def test_room(call: type[Caller]) -> None:
    with Service("--max-bytes-in-flight", "8MiB") as service:
        caller = call(service)
        request, payload = large(6 * MIB), bytes(6 * MIB)
        refused = caller.infer(large(9 * MIB), bytes(9 * MIB))
        assert refused.status == 413
        assert "8" in refused.error
        with caller.begun(request, payload, 1 * MIB) as slow:
            deadline = time.monotonic() + 10
            while (refused := caller.infer(request, payload)).status == 200:
                assert time.monotonic() < deadline, "the slow request has its room by now"
            assert refused.status == 503
            assert "room" in refused.error
            assert refused.retry_after >= 1
            # A share is kept for small ones.
            assert caller.infer(GOOD, X.tobytes()).status == 200
            assert slow.finish().payload == payload
        assert caller.infer(request, payload).status == 200


def test_pace(call: type[Caller]) -> None:
    options = ("--receive-timeout", "0.5", "--min-receive-rate", str(MIB))
    with Service(*options) as service:
        with call(service).begun(large(4 * MIB), bytes(4 * MIB), 0) as slow:
            outcome = slow.outcome()
        assert outcome.status == 408
        assert outcome.error
