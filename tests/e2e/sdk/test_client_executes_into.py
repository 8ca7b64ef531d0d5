"""Outputs of descriptors in the caller's memory: bytes, arrays, the input's own; and in tiles."""

from __future__ import annotations

import mmap
from functools import partial
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


def noted(done: list[int], count: int, total: int) -> None:
    assert count <= total
    done.append(count)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
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


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
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


IN_PLACE: dict[str, Document] = {
    "packed": ieee754("float32", [5, 7]),
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


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("document", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place(
    kind: type[AnyClient], service: Service, document: Document, digest: bool
) -> None:
    call = call_of(document)
    payload = payload_of(call)
    right = expected(call, payload)
    with kind(service.url, digest=digest) as client:
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


DENSE: dict[str, Document] = {
    "packed": ieee754("float64", [3, 4, 5]),
    "channels-last": ieee754(
        "float16", [2, 3, 4, 5], strides=[60, 1, 15, 3], output={"strides": [60, 1, 15, 3]}
    ),
    "padded": ieee754("float32", [61], byte_length=300, output={"byte_length": 260}),
    "odd-halves": {
        **STRIDED,
        "feature_level": "2_1",
        "desc": {
            side: {"DataType": "FLOAT16", "Sizes": [1, 1, 3, 67]}
            for side in ("InputTensor", "OutputTensor")
        },
    },
    "onnx": {**EXAMPLES["onnx"], "input": {"elem_type": "DOUBLE", "shape": [5, 13]}},
    "openvino": {**EXAMPLES["openvino"], "input": {"element_type": "bf16", "shape": [301]}},
}


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("document", DENSE.values(), ids=DENSE)
def test_tiles_make_the_same_bytes(
    kind: type[AnyClient], service: Service, document: Document, digest: bool
) -> None:
    call = call_of(document)
    payload = payload_of(call)
    right = expected(call, payload)
    x = strided_view(np.frombuffer(payload, np.uint8), call.input)
    with kind(service.url, tile_bytes=64, digest=digest) as client:
        for data in (payload, x, x.copy(order="F")):
            done: list[int] = []
            assert bytes(client.execute(document, data).data) == right
            out = bytearray(b"\xaa" * call.output.byte_length)
            client.execute(document, data, out=out, progress=partial(noted, done))
            assert bytes(out) == right
            assert len(done) > 2
            assert done[-1] == call.input.element_bytes
            held = np.zeros(call.output.shape, call.output.dtype.numpy)
            assert bytes(client.execute(document, data, out=held).data) == right
        if call.input.byte_length == call.output.byte_length:
            inside = x.copy(order="K")
            assert bytes(client.execute(document, inside, out=inside).data) == right


def test_progress_of_a_tensor_that_goes_whole(client: AnyClient) -> None:
    done: list[int] = []
    client.execute(STRIDED, bytes(40), progress=partial(noted, done))
    assert done == [0, 40]
