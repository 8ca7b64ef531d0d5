"""Inference requests: what each head means, and every way in which one can be wrong."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.dtypes import BY_NAME
from tensor_round.errors import InvalidDescriptor, MalformedJSON, RequestRefused, TensorTooLarge
from tensor_round.wire import jsontensor, oip, oip_request
from tensor_round.wire.json_size import measure_json

X: dict[str, Any] = {"name": "X", "shape": [2], "datatype": "FP32"}
INLINE: dict[str, Any] = {**X, "data": [0.5, 1.5]}
BINARY: dict[str, Any] = {**X, "parameters": {"binary_data_size": 8}}
REGION: dict[str, Any] = {
    **X,
    "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8},
}


def read(document: Any) -> oip.Request:
    return oip_request.read_request(json.dumps(document).encode())


def request(tensor: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"inputs": [tensor], **members}


def test_the_least_request() -> None:
    assert read(request(INLINE)) == oip.Request(
        id=None,
        parameters={},
        inputs=(oip.Input("X", "FP32", (2,), {}, oip.Inline([b"0.5", b"1.5"])),),
        outputs=(),
        binary_output=False,
    )


def test_a_full_request() -> None:
    document = request(
        {**X, "parameters": {"binary_data_size": 8, "dtype": "float32"}},
        id="seven",
        parameters={"rounding": "ties_to_away", "priority": 3, "timeout": 10, "a": 1.5, "b": True},
        outputs=[{"name": "Y", "parameters": {"binary_data": True}}, {"name": "Z"}],
    )
    assert read(document) == oip.Request(
        id="seven",
        parameters=document["parameters"],
        inputs=(
            oip.Input(
                "X", "FP32", (2,), {"binary_data_size": 8, "dtype": "float32"}, oip.Binary(8)
            ),
        ),
        outputs=(
            oip.Output("Y", {"binary_data": True}, binary=True, region=None),
            oip.Output("Z", {}, binary=False, region=None),
        ),
        binary_output=False,
    )


SOURCES: dict[str, tuple[dict[str, Any], oip.Source]] = {
    "data": (INLINE, oip.Inline([b"0.5", b"1.5"])),
    "nested-data": ({**X, "data": [[0.5], [[1]]]}, oip.Inline([[b"0.5"], [[b"1"]]])),
    "scalar-data": ({**X, "shape": [], "data": 7}, oip.Inline(b"7")),
    "no-elements": ({**X, "shape": [0], "data": []}, oip.Inline([])),
    "special-tokens": ({**X, "data": [math.nan, -math.inf]}, oip.Inline([b"NaN", b"-Infinity"])),
    "binary": (BINARY, oip.Binary(8)),
    "binary-beside-null": ({**BINARY, "data": None}, oip.Binary(8)),
    "no-bytes": ({**X, "parameters": {"binary_data_size": 0}}, oip.Binary(0)),
    "region": (REGION, oip.Region("r", 8, 0)),
    "region-with-offset": (
        {**X, "parameters": {**REGION["parameters"], "shared_memory_offset": 2**70}},
        oip.Region("r", 8, 2**70),
    ),
}


@pytest.mark.parametrize(("tensor", "source"), SOURCES.values(), ids=SOURCES)
def test_each_source(tensor: dict[str, Any], source: oip.Source) -> None:
    found = read(request(tensor))
    assert found.inputs[0].source == source
    assert found.uses_shared_memory is isinstance(source, oip.Region)


@pytest.mark.parametrize(
    ("everywhere", "own", "binary"),
    [
        (None, None, False),
        (True, None, True),
        (False, None, False),
        (None, True, True),
        (True, False, False),
        (False, True, True),
    ],
)
def test_which_outputs_are_binary(everywhere: Any, own: Any, binary: bool) -> None:
    parameters = {} if everywhere is None else {"binary_data_output": everywhere}
    output = {"name": "Y", "parameters": {} if own is None else {"binary_data": own}}
    found = read(request(INLINE, parameters=parameters, outputs=[output]))
    assert found.outputs[0].binary is binary
    assert found.binary_output is bool(everywhere)


def test_an_output_may_go_to_a_region() -> None:
    parameters = {
        "binary_data": False,
        "shared_memory_region": "r",
        "shared_memory_byte_size": 9,
        "shared_memory_offset": 4,
    }
    found = read(request(INLINE, outputs=[{"name": "Y", "parameters": parameters}]))
    assert found.outputs[0].region == oip.Region("r", 9, 4)
    assert found.uses_shared_memory


@pytest.mark.parametrize(
    "members",
    [
        {"id": None, "parameters": None, "outputs": None},
        {"model_name": "m", "model_version": "7", "anything": {"else": [1]}},
        {"outputs": []},
    ],
    ids=["nulls", "unknown-members", "no-outputs"],
)
def test_what_changes_nothing(members: dict[str, Any]) -> None:
    assert read(request(INLINE, **members)) == read(request(INLINE))


def without(tensor: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in tensor.items() if key != name}


def parameters(**values: Any) -> dict[str, Any]:
    return {**X, "parameters": values}


WRONG: dict[str, tuple[Any, str]] = {
    "no-inputs": ({}, "inputs: is required"),
    "null-inputs": ({"inputs": None}, "inputs: must be an array, got null"),
    "inputs-number": ({"inputs": 7}, "inputs: must be an array, got a number"),
    "inputs-object": ({"inputs": {}}, "inputs: must be an array, got an object"),
    "input-number": ({"inputs": [7]}, "inputs.0: must be an object"),
    "input-null": ({"inputs": [None]}, "inputs.0: must be an object, got null"),
    "second-input": ({"inputs": [INLINE, 7]}, "inputs.1: must be an object"),
    "id": (request(INLINE, id=7), "id: must be a string, got 7"),
    "parameters": (request(INLINE, parameters=[]), "parameters: must be an object, got an array"),
    "parameter-null": (request(INLINE, parameters={"a": None}), "parameters.a: must be a string"),
    "parameter-list": (request(INLINE, parameters={"a": [1]}), "parameters.a: must be a string"),
    "binary-output": (
        request(INLINE, parameters={"binary_data_output": 1}),
        "parameters.binary_data_output: must be true or false, got 1",
    ),
    "priority": (request(INLINE, parameters={"priority": "1"}), "parameters.priority: must be an"),
    "timeout": (request(INLINE, parameters={"timeout": -1}), "parameters.timeout: must be at"),
    "no-name": (request(without(INLINE, "name")), "inputs.0.name: is required"),
    "name": (request({**INLINE, "name": 1}), "inputs.0.name: must be a string, got 1"),
    "no-datatype": (request(without(INLINE, "datatype")), "inputs.0.datatype: is required"),
    "datatype": (request({**INLINE, "datatype": 1}), "inputs.0.datatype: must be a string"),
    "no-shape": (request(without(INLINE, "shape")), "inputs.0.shape: is required"),
    "shape": (request({**INLINE, "shape": 2}), "inputs.0.shape: must be an array"),
    "size-text": (request({**INLINE, "shape": ["2"]}), "inputs.0.shape.0: must be an integer"),
    "size-float": (request({**INLINE, "shape": [1, 2.0]}), "inputs.0.shape.1: must be an integer"),
    "size-bool": (request({**INLINE, "shape": [True]}), "inputs.0.shape.0: must be an integer"),
    "size-nan": (request({**INLINE, "shape": [math.nan]}), "inputs.0.shape.0: must be an integer"),
    "no-source": (request(X), "inputs.0: must have exactly one of data, binary_data_size and"),
    "null-data": (request({**X, "data": None}), "exactly one"),
    "two-sources": (request({**BINARY, "data": []}), "exactly one"),
    "three-sources": (
        request(parameters(**REGION["parameters"], binary_data_size=8) | {"data": []}),
        "got 3",
    ),
    "binary-and-region": (
        request(parameters(**REGION["parameters"], binary_data_size=8)),
        "got 2",
    ),
    "binary-size-text": (
        request(parameters(binary_data_size="8")),
        "inputs.0.parameters.binary_data_size: must be an integer",
    ),
    "binary-size-bool": (request(parameters(binary_data_size=True)), "must be an integer"),
    "binary-size-float": (request(parameters(binary_data_size=8.0)), "must be an integer"),
    "binary-size-negative": (request(parameters(binary_data_size=-8)), "must be at least 0"),
    "region-number": (
        request(parameters(shared_memory_region=1, shared_memory_byte_size=8)),
        "shared_memory_region: must be a string",
    ),
    "region-without-size": (request(parameters(shared_memory_region="r")), "shared memory needs"),
    "size-without-region": (request(parameters(shared_memory_byte_size=8)), "shared memory needs"),
    "offset-alone": (request(parameters(shared_memory_offset=8)), "shared memory needs"),
    "negative-offset": (
        request(parameters(**REGION["parameters"], shared_memory_offset=-1)),
        "shared_memory_offset: must be at least 0",
    ),
    "outputs": (request(INLINE, outputs={}), "outputs: must be an array"),
    "output": (request(INLINE, outputs=["Y"]), 'outputs.0: must be an object, got "Y"'),
    "output-name": (request(INLINE, outputs=[{}]), "outputs.0.name: is required"),
    "output-binary": (
        request(INLINE, outputs=[{"name": "Y", "parameters": {"binary_data": "true"}}]),
        "outputs.0.parameters.binary_data: must be true or false",
    ),
    "output-region": (
        request(INLINE, outputs=[{"name": "Y", "parameters": {"shared_memory_region": "r"}}]),
        "outputs.0.parameters: shared memory needs",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "says"), WRONG.values(), ids=WRONG)
def test_wrong_members(document: Any, says: str) -> None:
    with pytest.raises(InvalidDescriptor) as caught:
        read(document)
    assert says in caught.value.detail
    assert "\n" not in caught.value.detail


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
        oip_request.read_request(head)
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
            oip_request.read_request(head[:length])


@each_head
@pytest.mark.parametrize("trailing", [b"x", b"\0", b"{}", b"]", b"\xff"])
def test_trailing_bytes_are_refused(head: bytes, trailing: bytes) -> None:
    with pytest.raises(MalformedJSON):
        oip_request.read_request(head + trailing)


@given(st.binary(max_size=200) | st.sampled_from(sorted(HEADS.values())), st.data())
def test_only_documented_errors(head: bytes, data: st.DataObject) -> None:
    mutated = bytearray(head)
    for _ in range(data.draw(st.integers(0, 4))):
        if mutated:
            mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedJSON, InvalidDescriptor, TensorTooLarge):
        oip_request.read_request(bytes(mutated))


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


def padded(document: dict[str, Any], length: int) -> bytes:
    head = json.dumps(document).encode()
    return head + b" " * (length - len(head))


def test_a_head_without_numbers_has_64_kib() -> None:
    oip_request.read_request(padded(request(BINARY), 64 << 10))
    with pytest.raises(TensorTooLarge, match="65536"):
        oip_request.read_request(padded(request(BINARY), (64 << 10) + 1))
    oip_request.read_request(padded(request(INLINE), (64 << 10) + 1))


def test_a_head_with_numbers_has_16_mib_more() -> None:
    limit = (16 << 20) + (64 << 10)
    oip_request.read_request(padded(request(INLINE), limit))
    with pytest.raises(TensorTooLarge) as caught:
        oip_request.read_request(padded(request(INLINE), limit + 1))
    assert caught.value.limit_bytes == limit


@pytest.mark.parametrize("value", ["0", "1", "007", "9" * 19])
def test_header_lengths(value: str) -> None:
    assert oip_request.read_header_length(value) == int(value)


@pytest.mark.parametrize(
    "value", ["", "-1", "+1", "1.0", "x", "0x10", " 1", "1, 1", "١", "²", "9" * 20, "9" * 5000]
)
def test_what_is_no_header_length(value: str) -> None:
    with pytest.raises(InvalidDescriptor, match="Inference-Header-Content-Length"):
        oip_request.read_header_length(value)


@pytest.mark.parametrize(
    "act", [oip_request.read_request, lambda head: oip_request.read_header_length(str(head))]
)
def test_errors_repeat_nothing_at_length(act: Callable[[bytes], Any]) -> None:
    secret = b"SECRET" * 1000
    with pytest.raises(RequestRefused) as caught:
        act(b'{"inputs":"' + secret + b'"}')
    assert len(caught.value.detail) < 200


# Much of it

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
def test_what_no_tensor_has_is_refused_before_anything_is_made_of_it(name: str) -> None:
    item = ITEMS[name]
    count = (8 << 20) // (len(item(1 << 20)) + 1)
    head = HOSTILE[name] % "".join(f"{item(index)}," for index in range(count)).encode()
    tracemalloc.start()
    try:
        with pytest.raises(MalformedJSON, match="more than"):
            oip_request.read_request(head)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_values_beside_the_data_are_bounded() -> None:
    known = {**INLINE, "data": [0.5] * 100_000}
    few, many = ({"inputs": [known], "outputs": [0] * count} for count in (30_000, 40_000))
    with pytest.raises(InvalidDescriptor):
        oip_request.read_request(json.dumps(few).encode())
    with pytest.raises(MalformedJSON, match="beside the data"):
        oip_request.read_request(json.dumps(many).encode())


def test_a_request_and_its_numbers_take_no_more_than_the_census_says() -> None:
    for data in ([0] * 100_000, [[-1.5]] * 50_000, ["Infinity"] * 50_000):
        head = json.dumps({"inputs": [{**X, "shape": [len(data)], "data": data}]}).encode()
        tracemalloc.start()
        try:
            (tensor,) = oip_request.read_request(head).inputs
            assert isinstance(tensor.source, oip.Inline)
            dtype = BY_NAME["float32"]
            jsontensor.read(tensor.source.data, dtype, tensor.shape, any_nesting=True)
            assert tracemalloc.get_traced_memory()[1] <= measure_json(head).nbytes
        finally:
            tracemalloc.stop()
