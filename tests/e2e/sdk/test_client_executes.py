"""Descriptors executed as they are, each byte against raw HTTP and the reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.dialect import Document
from support.cases.executions import (
    DOCUMENTS,
    STRIDED,
    ieee754,
)
from support.clients import AnyClient
from support.http.native_form import post
from support.services.server import Service

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


@pytest.mark.parametrize("tile_bytes", [4, 1 << 20], ids=["tiles", "whole"])
def test_directml_s_length_may_be_that_before_it_is_rounded_up(
    kind: type[AnyClient], service: Service, tile_bytes: int
) -> None:
    halves = DOCUMENTS["directml-odd-halves"]
    payload = np.array([2.5, -0.5, 1.5], np.float16).tobytes()
    with kind(service.url, tile_bytes=tile_bytes) as client:
        result = client.execute(halves, payload)
    assert result.layout.byte_length == result.data.nbytes == 8
    assert np.frombuffer(result.data, np.float16).tolist() == [2, -0.0, 2, 0]


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
    "no array": (STRIDED, "text", "data is a str, not an array"),
    "a list": (STRIDED, [[1.5]], "data has dtype float64"),
    "repeated": (ieee754("float32", [2, 2], strides=[0, 1]), REPEATED, "different elements where"),
    "vast": (ieee754("int8", [2], strides=[1 << 60]), np.zeros(2, np.int8), "cannot be allocated"),
    "beyond any address": (VAST, np.zeros((5, 5)), "cannot be allocated"),
}
ONE_ROW = np.lib.stride_tricks.as_strided(np.zeros(3, "f4"), (2, 3), (0, 4))
OUTS: dict[str, tuple[Any, str]] = {
    "short": (bytearray(35), "36 bytes .* got 35"),
    "masked": (MASKED, "out is masked"),
    "read-only": (bytes(36), "read-only"),
    "dtype": (np.zeros((2, 3)), "out has dtype"),
    "shape": (np.zeros(6, "f4"), "out has shape"),
    "repeats": (ONE_ROW, "share memory with each other"),
    "no array": ("text", "out is a str, not an array"),
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
