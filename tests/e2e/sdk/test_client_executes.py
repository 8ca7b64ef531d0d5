"""Descriptors executed as they are: data and outputs as bytes, arrays, one for both; in tiles."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, patterns
from support.cases.backend_calls import expected
from support.cases.descriptors import (
    DOCUMENTS,
    EXAMPLES,
    STRIDED,
    TENSOR,
    call_of,
    ieee754,
    payload_of,
)
from support.cases.dialect import Document
from support.cases.every import every
from support.clients import KINDS, AnyClient
from support.http.native_form import post
from support.services.server import Service
from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.host_memory import elements, strided_view

MODEL = tr.DirectMLDescriptor(
    feature_level="3_0",
    type="DML_OPERATOR_ELEMENT_WISE_ROUND",
    desc=tr.ElementWiseRoundDesc(
        InputTensor=tr.BufferTensorDesc(
            DataType="FLOAT32",
            Sizes=[2, 3],
            Strides=[1, 2],
            TotalTensorSizeInBytes=40,
            GuaranteedBaseOffsetAlignment=16,
            Flags="OWNED_BY_DML",
        ),
        OutputTensor=tr.BufferTensorDesc(
            DataType="FLOAT32", Sizes=(2, 3), Strides=(5, 1), TotalTensorSizeInBytes=36
        ),
        RoundingMode="TOWARD_INFINITY",
    ),
)


def test_a_descriptor_with_strides_and_another_output_layout_is_as_by_raw_http(
    client: AnyClient, service: Service
) -> None:
    x = np.array([[-2.5, -1.5, 0.5], [1.5, 2.5, -0.3]], np.float32)
    payload = np.pad(x.T.ravel(), (0, 4)).tobytes()
    raw = post(service, json.dumps(STRIDED), payload).content
    forms: list[Any] = [MODEL, STRIDED, json.dumps(STRIDED), json.dumps(STRIDED).encode()]
    tensors = [
        payload,
        bytearray(payload),
        np.frombuffer(payload, np.uint8),
        x,
        np.asfortranarray(x),
    ]
    for descriptor in forms:
        for data in tensors:
            result = client.execute(descriptor, data)
            assert bytes(result.data) == raw
            assert result.layout == (np.dtype("<f4"), (2, 3), (5, 1), 36)
            assert result.numpy().strides == (20, 4)
            assert result.numpy().tolist() == [[-3, -2, 1], [2, 3, -0.0]]


def test_the_service_s_refusal_leaves_out_as_it_was(client: AnyClient, service: Service) -> None:
    limit = client.operators()["limits"]["max_tensor_bytes"]
    vast = ieee754("int8", [2, 1], output={"strides": [limit, 1]})
    x = np.zeros((2, 1), np.int8)
    out = np.full((2, 1), 7, np.int8)
    with pytest.raises(tr.TensorTooLarge) as caught:
        client.execute(vast, x, out=out)
    assert (caught.value.limit_bytes, caught.value.got_bytes) == (limit, limit + 1)
    assert out.tolist() == [[7], [7]]
    # An output that no machine has room for is the service's to refuse, too.
    beyond = ieee754("int8", [2, 1], output={"strides": [1 << 62, 1]})
    with pytest.raises(tr.TensorTooLarge):
        client.execute(beyond, x)


DESCRIPTORS: dict[str, tuple[Any, type[tr.TensorRoundError], str]] = {
    "no JSON": ("{", tr.MalformedJSON, "not JSON"),
    "surrogate": ('{"dialect": "\ud800"}', tr.MalformedJSON, "UTF-8"),
    "too long": (" " * (1 << 15), tr.HeadersTooLarge, "16384"),
    "a list": ([STRIDED], tr.InvalidArgumentType, "got an array"),
    "nothing": (None, tr.InvalidArgumentType, "got null"),
    "an operator": (tr.DirectMLRound(), tr.InvalidArgumentType, r"operator.descriptor\("),
    "no dialect": ({}, tr.InvalidDescriptor, "dialect: is required: one of"),
    "a broken copy": (
        MODEL.model_copy(update={"feature_level": "9_9"}),
        tr.InvalidDescriptor,
        'feature_level: got "9_9"; directml: a feature level takes',
    ),
}
MASKED = np.ma.masked_array(np.zeros((2, 3), "f4"), True)
REPEATED = np.array([[1, 2], [1, 3]], np.float32)
VAST = ieee754("float64", [5, 5], strides=[(1 << 63) - 1, 1])
DATA: dict[str, tuple[Document, Any, str]] = {
    "short": (STRIDED, bytes(36), "must have 40 bytes .* got 36"),
    "masked": (STRIDED, MASKED, "data is masked"),
    "dtype": (STRIDED, np.zeros((2, 3)), "dtype float64, .* float32"),
    "shape": (STRIDED, np.zeros((3, 2), "f4"), r"shape \(3, 2\)"),
    "repeated": (ieee754("float32", [2, 2], strides=[0, 1]), REPEATED, "different elements where"),
    "vast": (ieee754("int8", [2], strides=[1 << 60]), np.zeros(2, np.int8), "cannot be allocated"),
    "beyond any address": (VAST, np.zeros((5, 5)), "cannot be allocated"),
}
ONE_ROW = np.lib.stride_tricks.as_strided(np.zeros(3, "f4"), (2, 3), (0, 4))
OUTS: dict[str, tuple[Any, str]] = {
    "short": (bytearray(35), "36 bytes .* got 35"),
    "masked": (MASKED, "out is masked"),
    "dtype": (np.zeros((2, 3)), "out has dtype"),
    "repeats": (ONE_ROW, "share memory with each other"),
}
REFUSED: dict[str, tuple[Any, ...]] = {
    **{name: (stated, b"", None, *rest) for name, (stated, *rest) in DESCRIPTORS.items()},
    **{
        f"data {name}": (stated, data, None, (tr.InvalidArgument, tr.PayloadSizeMismatch), why)
        for name, (stated, data, why) in DATA.items()
    },
    **{
        f"out {name}": (STRIDED, bytes(40), out, tr.InvalidArgument, why)
        for name, (out, why) in OUTS.items()
    },
}


@pytest.mark.parametrize(
    ("descriptor", "data", "out", "error", "why"), REFUSED.values(), ids=REFUSED
)
def test_invalid_call_is_refused_before_anything_is_sent(
    kind: type[AnyClient],
    descriptor: Any,
    data: Any,
    out: Any,
    error: Any,
    why: str,
) -> None:
    # Nobody listens there: what would be sent is a failed connection.
    with kind("http://127.0.0.1:9") as client, pytest.raises(error, match=why) as caught:
        client.execute(descriptor, data, out=out)
    assert caught.value.request_id is None


def execution_of(document: Document) -> tuple[Call, bytes, bytes]:
    """The call, a payload, and the right output."""
    call = call_of(document)
    payload = payload_of(call)
    return call, payload, expected(call, payload)


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
#: Where a client asks, and how.
PLACES: dict[str, dict[str, Any]] = {
    "local": {},
    "whole": {},
    "verified": {"digest": True},
    "tiles": {"tile_bytes": 64},
    "verified tiles": {"tile_bytes": 64, "digest": True},
}


def in_every_place(check: Callable[[AnyClient, Document], None]) -> Any:
    """Check every document in every place; the two kinds of clients take turns."""
    documents = [*(DOCUMENTS | DENSE).values()]

    @pytest.mark.parametrize(
        ("kind", "client", "first"),
        [
            pytest.param(kind, place, (turn + own) % len(KINDS), id=f"{name}-{place}")
            for turn, place in enumerate(PLACES)
            for own, (name, kind) in enumerate(KINDS.items())
        ],
        indirect=["kind", "client"],
    )
    def test(client: AnyClient, first: int) -> None:
        every(partial(check, client), documents[first :: len(KINDS)])

    return test


@pytest.fixture(params=PLACES)
def client(
    request: pytest.FixtureRequest, kind: type[AnyClient], service: Service
) -> Iterator[AnyClient]:
    url = "local:" if request.param == "local" else service.url
    with kind(url, **PLACES[request.param]) as made:
        yield made


@in_every_place
def test_data_as_bytes_or_as_an_array_of_any_order(client: AnyClient, document: Document) -> None:
    call, payload, right = execution_of(document)
    x = elements(np.frombuffer(payload, np.uint8), call.input)
    swapped = x.astype(x.dtype.newbyteorder(">")) if x.dtype.kind in "fi" else x.copy()
    # DirectML's lengths may be those before they are rounded up.
    for given in (payload, payload[: call.shortest_input]):
        assert bytes(client.execute(document, given).data) == right
    for array in (x, x.copy(order="F"), swapped):
        before = bits(array)
        assert bytes(client.execute(document, array).data) == right
        assert np.array_equal(bits(array), before)


@in_every_place
def test_out_as_bytes_is_filled_whole(client: AnyClient, document: Document) -> None:
    call, payload, right = execution_of(document)
    outs: list[Any] = [bytearray(b"\xaa" * call.output.byte_length)]
    outs.append(np.full(call.output.byte_length, 0xAA, np.uint8))
    if call.output.byte_length:
        outs.append(mmap.mmap(-1, call.output.byte_length))
    for out in outs:
        result = client.execute(document, payload, out=out)
        assert bytes(out) == bytes(result.data) == right
        memory = np.frombuffer(out, np.uint8)
        is_view = call.output.element_count > 0 and not call.output.dtype.is_sub_byte
        assert np.shares_memory(result.numpy(), memory) is is_view


@in_every_place
def test_out_as_an_array_gets_its_elements_and_no_more(
    client: AnyClient, document: Document
) -> None:
    call, payload, right = execution_of(document)
    seen = elements(np.frombuffer(right, np.uint8), call.output)
    # In NumPy's memory elements of 4 bits have a byte each.
    memory = np.full(seen.size + call.output.byte_length + 64, 0xAA, np.uint8)
    if call.output.dtype.is_sub_byte:
        inside = memory[: seen.size].view(seen.dtype).reshape(seen.shape)
    else:
        inside = strided_view(memory, call.output)
    sides = np.empty([*call.output.shape, 2], seen.dtype)
    for out in (inside, np.empty_like(seen), sides[..., 1]):
        result = client.execute(document, payload, out=out)
        assert bytes(result.data) == right
        assert result.numpy() is out
        assert np.array_equal(bits(np.asarray(out)), bits(seen))
    host_memory.bits(inside)[...] = 0
    # What lies between the elements is not the tensor's.
    assert set(memory[memory != 0]) <= {0xAA}


@pytest.mark.parametrize("document", [*DENSE.values(), STRIDED], ids=[*DENSE, "strided"])
def test_progress_tells_of_tiles(
    kind: type[AnyClient], service: Service, document: Document
) -> None:
    """A tensor that is not dense goes whole."""
    told: list[tuple[int, int]] = []
    call, payload, _ = execution_of(document)
    with kind(service.url, tile_bytes=64) as asking:
        asking.execute(document, payload, progress=lambda *seen: told.append(seen))
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
    call, payload, right = execution_of(document)
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
