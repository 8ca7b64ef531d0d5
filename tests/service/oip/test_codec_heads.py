"""Heads of inference requests: malformed, mutated, and the length that a field states."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cases.inference_requests import BINARY, INLINE, REGION, read, request
from tensor_round.contract.errors import (
    InvalidDescriptor,
    MalformedJSON,
    RequestRefused,
    TensorTooLarge,
)
from tensor_round_service.oip import codec

MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "space": (b"  ", "not JSON"),
    "array": (b"[]", "must be a JSON object"),
    "number": (b"7", "must be a JSON object"),
    "open": (b'{"inputs":[', "not JSON"),
    "trailing-comma": (b'{"inputs":[],}', "not JSON"),
    "key-twice": (b'{"inputs":[],"inputs":[]}', "twice"),
    "not-utf-8": (b'{"id":"\xff"}', "UTF-8"),
    "surrogate": (b'{"id":"\\ud800"}', "surrogate"),
    "mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "deep": (b'{"inputs":' + b"[" * 100 + b"]" * 100 + b"}", "deeper"),
    "deep-beyond-the-stack": (b"[" * 60_000, "deeper"),
    "long-integer": (b'{"inputs":[],"id":' + b"7" * 5000 + b"}", "digits"),
}


@pytest.mark.parametrize(("head", "says"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_heads(head: bytes, says: str) -> None:
    with pytest.raises(MalformedJSON) as caught:
        codec.read_request(head)
    assert says in caught.value.detail


HEADS = {
    name: json.dumps(request(tensor, id="é", outputs=[{"name": "Y"}])).encode()
    for name, tensor in (("inline", INLINE), ("binary", BINARY), ("region", REGION))
}
each_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)


@each_head
def test_a_head_cut_anywhere_is_refused(head: bytes) -> None:
    for length in range(len(head)):
        with pytest.raises(MalformedJSON):
            codec.read_request(head[:length])


@each_head
@pytest.mark.parametrize("trailing", [b"x", b"\0", b"{}", b"]", b"\xff"])
def test_trailing_bytes_are_refused(head: bytes, trailing: bytes) -> None:
    with pytest.raises(MalformedJSON):
        codec.read_request(head + trailing)


@given(st.binary(max_size=200) | st.sampled_from(sorted(HEADS.values())), st.data())
def test_only_documented_errors(head: bytes, data: st.DataObject) -> None:
    mutated = bytearray(head)
    for _ in range(data.draw(st.integers(0, 4))):
        if mutated:
            mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedJSON, InvalidDescriptor, TensorTooLarge):
        codec.read_request(bytes(mutated))


FULL = request(
    {**BINARY, "data": [1]},
    id="7",
    parameters={"binary_data_output": True, "timeout": 1},
    outputs=[{"name": "Y", "parameters": {**REGION["parameters"], "binary_data": True}}],
)
VALUES: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", [], [[]], [None], {}, {"a": 1}]


def paths(node: Any) -> Iterator[tuple[str | int, ...]]:
    """The way to every member of a document."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield (key,)
        if isinstance(node[key], dict | list):
            yield from ((key, *rest) for rest in paths(node[key]))


@pytest.mark.parametrize("path", list(paths(FULL)), ids=lambda path: ".".join(map(str, path)))
def test_any_value_anywhere_is_read_or_refused(path: tuple[str | int, ...]) -> None:
    for value in VALUES:
        document = copy.deepcopy(FULL)
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value
        with contextlib.suppress(InvalidDescriptor):
            read(document)


@pytest.mark.parametrize("value", ["0", "1", "007", "9" * 19])
def test_header_lengths(value: str) -> None:
    assert codec.read_header_length(value) == int(value)


@pytest.mark.parametrize(
    "value", ["", "-1", "+1", "1.0", "x", "0x10", " 1", "1, 1", "١", "²", "9" * 20, "9" * 5000]
)
def test_malformed_header_length_is_refused(value: str) -> None:
    with pytest.raises(InvalidDescriptor, match="Inference-Header-Content-Length"):
        codec.read_header_length(value)


@pytest.mark.parametrize(
    "act", [codec.read_request, lambda head: codec.read_header_length(str(head))]
)
def test_errors_repeat_nothing_at_length(act: Callable[[bytes], Any]) -> None:
    secret = b"SECRET" * 1000
    with pytest.raises(RequestRefused) as caught:
        act(b'{"inputs":"' + secret + b'"}')
    assert len(caught.value.detail) < 200
