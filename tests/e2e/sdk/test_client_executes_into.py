"""Inputs and outputs in the caller's memory: bytes, arrays, one for both, whole and in tiles."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, patterns
from support.cases.backend_calls import expected
from support.cases.descriptors import EXAMPLES
from support.cases.dialect import Document
from support.cases.executions import (
    DOCUMENTS,
    STRIDED,
    TENSOR,
    call_of,
    ieee754,
    payload_of,
)
from support.clients import AnyClient
from support.services.server import Service
from tensor_round.contract.host_memory import strided_view

#: What lies as densely as its elements, and goes in tiles.
DENSE: dict[str, Document] = {
    "packed": ieee754("float64", [3, 4, 5]),
    "channels-last both": ieee754(
        "float16", [2, 3, 4, 5], strides=[60, 1, 15, 3], output={"strides": [60, 1, 15, 3]}
    ),
    "padded both": ieee754("float32", [61], byte_length=300, output={"byte_length": 260}),
    "odd-halves": {
        **STRIDED,
        "feature_level": "2_1",
        "desc": {
            side: {"DataType": "FLOAT16", "Sizes": [1, 1, 3, 67]}
            for side in ("InputTensor", "OutputTensor")
        },
    },
    "many doubles": {**EXAMPLES["onnx"], "input": {"elem_type": "DOUBLE", "shape": [5, 13]}},
    "many bfloat16s": {**EXAMPLES["openvino"], "input": {"element_type": "bf16", "shape": [301]}},
}
each_document = pytest.mark.parametrize(
    "document", [*DOCUMENTS.values(), *DENSE.values()], ids=[*DOCUMENTS, *DENSE]
)
#: Where a client asks, and how.
PLACES: dict[str, dict[str, Any]] = {
    "local": {},
    "whole": {},
    "verified": {"digest": True},
    "tiles": {"tile_bytes": 64},
    "verified tiles": {"tile_bytes": 64, "digest": True},
}


@pytest.fixture(params=PLACES)
def client(
    request: pytest.FixtureRequest, kind: type[AnyClient], service: Service
) -> Iterator[AnyClient]:
    url = "local:" if request.param == "local" else service.url
    with kind(url, **PLACES[request.param]) as made:
        yield made


@each_document
def test_data_as_bytes_or_as_an_array_of_any_order(client: AnyClient, document: Document) -> None:
    call = call_of(document)
    payload = payload_of(call)
    right = expected(call, payload)
    x = strided_view(np.frombuffer(payload, np.uint8), call.input)
    swapped = x.astype(x.dtype.newbyteorder(">")) if x.dtype.kind in "fi" else x.copy()
    assert bytes(client.execute(document, payload).data) == right
    for array in (x, x.copy(order="F"), swapped):
        before = bits(array)
        assert bytes(client.execute(document, array).data) == right
        assert np.array_equal(bits(array), before)


@each_document
def test_out_as_bytes_is_filled_whole(client: AnyClient, document: Document) -> None:
    call = call_of(document)
    payload = payload_of(call)
    outs: list[Any] = [bytearray(b"\xaa" * call.output.byte_length)]
    outs.append(np.full(call.output.byte_length, 0xAA, np.uint8))
    if call.output.byte_length:
        outs.append(mmap.mmap(-1, call.output.byte_length))
    for out in outs:
        result = client.execute(document, payload, out=out)
        assert bytes(out) == bytes(result.data) == expected(call, payload)
        memory = np.frombuffer(out, np.uint8)
        assert np.shares_memory(result.numpy(), memory) or not call.output.element_count


@each_document
def test_out_as_an_array_gets_its_elements_and_no_more(
    client: AnyClient, document: Document
) -> None:
    call = call_of(document)
    payload = payload_of(call)
    right = expected(call, payload)
    seen = strided_view(np.frombuffer(right, np.uint8), call.output)
    memory = np.full(call.output.byte_length + 64, 0xAA, np.uint8)
    inside = strided_view(memory, call.output)
    sides = np.empty([*call.output.shape, 2], seen.dtype)
    for out in (inside, np.empty_like(seen), sides[..., 1]):
        result = client.execute(document, payload, out=out)
        assert bytes(result.data) == right
        assert np.array_equal(bits(np.asarray(out)), bits(seen))
    inside[...] = 0
    # What lies between the elements is not the tensor's.
    assert set(memory[memory != 0]) <= {0xAA}


@pytest.mark.parametrize("document", [*DENSE.values(), STRIDED], ids=[*DENSE, "strided"])
def test_progress_tells_of_tiles(
    kind: type[AnyClient], service: Service, document: Document
) -> None:
    """A tensor that is not dense goes whole."""
    told: list[tuple[int, int]] = []
    call = call_of(document)
    with kind(service.url, tile_bytes=64) as asking:
        asking.execute(document, payload_of(call), progress=lambda *seen: told.append(seen))
    assert {total for _, total in told} == {told[-1][0]}
    assert told[-1][0] == (40 if document is STRIDED else call.input.element_bytes)
    assert (len(told) == 2) is (document is STRIDED)


IN_PLACE: dict[str, Document] = {
    "fortran": ieee754("float16", [5, 7], strides=[1, 5], output={"strides": [1, 5]}),
    "gaps": ieee754("float64", [3, 2], strides=[5, 2], output={"strides": [5, 2]}),
    "padded": ieee754("float16", [3], byte_length=9, output={"byte_length": 9}),
    "directml": {
        **STRIDED,
        "desc": {
            side: {**TENSOR, "Strides": [1, 3], "TotalTensorSizeInBytes": 32}
            for side in ("InputTensor", "OutputTensor")
        },
    },
}


ALIKE = {name: some for name, some in (IN_PLACE | DENSE).items() if call_of(some).is_in_place}


@pytest.mark.parametrize("document", ALIKE.values(), ids=ALIKE)
def test_in_place(client: AnyClient, document: Document) -> None:
    call = call_of(document)
    payload = payload_of(call)
    right = expected(call, payload)
    whole = bytearray(payload)
    result = client.execute(document, whole, out=whole)
    assert bytes(whole) == bytes(result.data) == right
    memory = np.frombuffer(payload, np.uint8).copy()
    x = strided_view(memory, call.input)
    result = client.execute(document, x, out=x)
    assert result.numpy() is x
    assert bytes(result.data) == right
    # What lies between the elements is not the tensor's.
    seen = strided_view(np.frombuffer(right, np.uint8), call.output)
    assert np.array_equal(bits(x), bits(seen))
    strided_view(memory, call.input).view(f"<u{x.itemsize}")[...] = bits(
        strided_view(np.frombuffer(payload, np.uint8), call.input)
    )
    assert memory.tobytes() == payload


def packed(count: int) -> Document:
    return ieee754("float32", [count])


OVERLAPS: dict[str, tuple[Document, Any]] = {
    "another place": (packed(8), lambda m: (m[:8], m[1:9])),
    "another place, back": (packed(8), lambda m: (m[1:9], m[:8])),
    "another place, as bytes": (
        packed(8),
        lambda m: (m[:8].view(np.uint8), m.view(np.uint8)[4:36]),
    ),
    "other strides": (
        ieee754("float32", [3, 4], output={"strides": [1, 3]}),
        lambda m: (m[:12].reshape(3, 4), m[:12].reshape(4, 3).T),
    ),
    "strides unlike the layouts'": (
        ieee754("float32", [3, 3]),
        lambda m: (m[:9].reshape(3, 3), m[:9].reshape(3, 3).T),
    ),
    "another length": (
        ieee754("float32", [4], byte_length=16, output={"byte_length": 20}),
        lambda m: (m[:4].view(np.uint8), m[:5].view(np.uint8)),
    ),
    "byte order": (packed(8), lambda m: (m[:8], m[:8].view(">f4"))),
    "interleaved": (packed(8), lambda m: (m[0:16:2], m[1:17:2])),
}


@pytest.mark.parametrize(("document", "cut"), OVERLAPS.values(), ids=OVERLAPS)
def test_any_other_overlap_is_refused_and_changes_nothing(
    client: AnyClient, document: Document, cut: Any
) -> None:
    memory = patterns("float32", 20).copy()
    before = memory.tobytes()
    data, out = cut(memory)
    with pytest.raises(tr.InvalidArgument, match="overlaps the input"):
        client.execute(document, data, out=out)
    assert memory.tobytes() == before
