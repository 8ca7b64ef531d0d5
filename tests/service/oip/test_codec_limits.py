"""Limits of inference requests: bytes of a head, and values before any memory is spent on them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from support.http.inference_form import INLINE, binary, tensor
from support.http.inference_form import document as request
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor, MalformedJSON, TensorTooLarge
from tensor_round.contract.wire.json_size import measure_json
from tensor_round_service.codec import jsontensor
from tensor_round_service.oip import codec

X = tensor("FP32", [2])
BINARY = binary("FP32", [2], 8)


def padded(document: dict[str, Any], length: int) -> bytes:
    head = json.dumps(document).encode()
    return head + b" " * (length - len(head))


def test_a_head_without_numbers_has_64_kib() -> None:
    codec.read_request(padded(request(BINARY), 64 << 10))
    with pytest.raises(TensorTooLarge, match="65536"):
        codec.read_request(padded(request(BINARY), (64 << 10) + 1))
    codec.read_request(padded(request(INLINE), (64 << 10) + 1))


def test_a_head_with_numbers_has_16_mib_more() -> None:
    limit = (16 << 20) + (64 << 10)
    codec.read_request(padded(request(INLINE), limit))
    with pytest.raises(TensorTooLarge) as caught:
        codec.read_request(padded(request(INLINE), limit + 1))
    assert caught.value.limit_bytes == limit


def test_numbers_may_nest_as_deep_as_the_highest_rank_and_their_request() -> None:
    def nested(depth: int) -> bytes:
        return (
            json.dumps(request(INLINE))
            .encode()
            .replace(json.dumps(INLINE["data"]).encode(), b"[" * depth + b"1" + b"]" * depth)
        )

    codec.read_request(nested(65))
    with pytest.raises(MalformedJSON, match="nests deeper than 68"):
        codec.read_request(nested(66))


HOSTILE: dict[str, bytes] = {
    "arrays": b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[%s[]]}]}',
    "rows": b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[%s[]]}]}',
    "objects": b'{"inputs":[%s{}]}',
    "members": b'{"parameters":{%s"a":0},"inputs":[]}',
}
ITEMS: dict[str, Callable[[int], str]] = {
    "arrays": lambda index: "[]",
    "rows": lambda index: "[" * 60 + "0" + "]" * 60,
    "objects": lambda index: '{"data":[]}',
    "members": lambda index: f'"{index:x}":0',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_oversized_document_is_refused_before_it_is_parsed(name: str) -> None:
    item = ITEMS[name]
    count = (8 << 20) // (len(item(1 << 20)) + 1)
    head = HOSTILE[name] % "".join(f"{item(index)}," for index in range(count)).encode()
    tracemalloc.start()
    try:
        with pytest.raises(MalformedJSON, match="more than"):
            codec.read_request(head)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_values_beside_the_data_are_bounded() -> None:
    known = {**INLINE, "data": [0.5] * 100_000}
    few, many = ({"inputs": [known], "outputs": [0] * count} for count in (30_000, 40_000))
    with pytest.raises(InvalidDescriptor):
        codec.read_request(json.dumps(few).encode())
    with pytest.raises(MalformedJSON, match="beside the data"):
        codec.read_request(json.dumps(many).encode())


def test_a_request_and_its_numbers_take_no_more_than_the_census_says() -> None:
    for data in ([0] * 100_000, [[-1.5]] * 50_000, ["Infinity"] * 50_000):
        head = json.dumps({"inputs": [{**X, "shape": [len(data)], "data": data}]}).encode()
        tracemalloc.start()
        try:
            (tensor,) = codec.read_request(head).inputs
            assert isinstance(tensor.source, codec.Inline)
            dtype = BY_NAME["float32"]
            jsontensor.read(tensor.source.data, dtype, tensor.shape, any_nesting=True)
            assert tracemalloc.get_traced_memory()[1] <= measure_json(head).nbytes
        finally:
            tracemalloc.stop()
