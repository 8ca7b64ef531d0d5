"""Linear quantization by a real server and in the client's process, as bytes behind each other."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import numpy as np
import pytest

import tensor_round as tr
from support.cases.linear_calls import Operands, operands_of, payload_of, right
from support.http.native_form import post
from support.services.server import Service
from tensor_round.contract.operators import registry

DOCUMENT: dict[str, Any] = registry.OPERATORS["onnx:QuantizeLinear"].descriptor.example
BLOCKED: dict[str, Any] = {
    "dialect": "onnx",
    "op_type": "DequantizeLinear",
    "opset_version": 21,
    "axis": 0,
    "block_size": 32,
    "input": {"elem_type": "INT4", "shape": [65, 5]},
    "x_scale": {"elem_type": "FLOAT16", "shape": [3, 5]},
    "x_zero_point": {"elem_type": "INT4", "shape": [3, 5]},
}
#: Larger than what overlaps with receiving, and than a client's tiles.
LARGE: dict[str, Any] = {
    **DOCUMENT,
    "input": {"elem_type": "FLOAT", "shape": [1_500_000, 3]},
}


def payload() -> bytes:
    x = np.array([[0.5, -7.6, 90], [np.nan, np.inf, -1e30]], np.float32)
    scale, zero_point = np.array([0.2, 0.5, 1], np.float32), np.array([1, -2, 3], np.int8)
    return b"".join(each.tobytes() for each in (x, scale, zero_point))


RIGHT = [3, -17, 93, 1, 127, -128]


@pytest.mark.parametrize("place", ["service", "local"])
def test_tensors_go_behind_each_other(service: Service, place: str) -> None:
    with tr.Client("local:" if place == "local" else service.url) as client:
        found = client.execute(DOCUMENT, payload())
        assert np.frombuffer(found.data, np.int8).tolist() == RIGHT
        assert found.layout.dtype == np.int8


@pytest.mark.parametrize("document", [BLOCKED, LARGE], ids=["blocked", "large"])
@pytest.mark.parametrize("place", ["service", "local"])
def test_results_are_the_references(service: Service, place: str, document: dict[str, Any]) -> None:
    call = registry.validate(document).resolve()
    if document is LARGE:
        x = np.linspace(-300, 300, call.input.element_count, dtype=np.float32)
        scale = np.array([[0.2, 0.5, 1]], np.float32)
        operands = Operands(
            x.view(np.uint32).reshape(call.input.shape),
            scale.view(np.uint32),
            np.array([[1, 254, 3]], np.uint8),
        )
    else:
        operands = operands_of(call, 3)
    with tr.Client("local:" if place == "local" else service.url, tile_bytes=1 << 20) as client:
        found = client.execute(document, payload_of(call, operands))
    got = np.frombuffer(found.data, call.output.dtype.bits)
    assert np.array_equal(got, right(call, operands))


def test_a_tensor_of_another_length_is_refused_before_it_is_received(service: Service) -> None:
    for given in (payload()[:-1], payload() + b"\0"):
        answer = post(service, json.dumps(DOCUMENT), given)
        assert answer.status == 400
        assert answer.json()["code"] == "payload_size_mismatch"
        assert "must have 39 bytes" in answer.json()["detail"]


def test_other_ways_say_that_they_take_one_tensor(service: Service) -> None:
    answer = httpx2.post(f"{service.url}/round", json={"descriptor": DOCUMENT, "data": [0.5] * 6})
    assert answer.status_code == 422
    assert "several tensors takes them as application/octet-stream" in answer.text
    answer = httpx2.post(
        f"{service.url}/compare",
        content=payload(),
        headers={"Operator-Descriptor": json.dumps(DOCUMENT)},
    )
    assert answer.status_code == 422
    assert "no directions to compare" in answer.text
