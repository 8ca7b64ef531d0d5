"""Inference requests: what each member means, what is wrong with one, and limits; responses."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.http.inference_form import INLINE, binary, tensor
from support.http.inference_form import document as request
from support.memory import traced
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import (
    InvalidDescriptor,
    MalformedJSON,
    RequestRefused,
    TensorTooLarge,
)
from tensor_round_service.codec import jsontensor
from tensor_round_service.codec.json_size import measure_json
from tensor_round_service.oip import infer_json
from tensor_round_service.oip.infer_json import write_error, write_response

X = tensor("FP32", [2])
BINARY = binary("FP32", [2], 8)
REGION = tensor("FP32", [2], parameters={"shared_memory_region": "r", "shared_memory_byte_size": 8})


def read(document: Any) -> infer_json.Request:
    return infer_json.read_request(json.dumps(document).encode())


def test_the_least_request() -> None:
    found = read(request(INLINE))
    assert found == infer_json.Request(
        id=None,
        parameters={},
        inputs=(infer_json.Input("X", "FP32", (2,), {}, infer_json.Inline([b"0.5", b"1.5"])),),
        outputs=(),
        binary_output=False,
    )
    # What is freed in pieces later, and what the numbers cost.
    assert found.data == [[b"0.5", b"1.5"]]
    of_no_header = infer_json.request_of({"inputs": [BINARY]}, [None])
    assert (of_no_header.data, of_no_header.header_length) == ([], 0)
    assert infer_json.Request(None, {}, (), (), binary_output=True).header_length == 0


def test_a_full_request() -> None:
    own = {"binary_data_size": 8, "dtype": "float32"}
    document = request(
        {**X, "parameters": own},
        id="seven",
        parameters={"rounding": "ties_to_away", "priority": 3, "timeout": 10, "a": 1.5, "b": True},
        outputs=[{"name": "Y", "parameters": {"binary_data": True}}, {"name": "Z"}],
    )
    assert read(document) == infer_json.Request(
        id="seven",
        parameters=document["parameters"],
        inputs=(infer_json.Input("X", "FP32", (2,), own, infer_json.Binary(8)),),
        outputs=(
            infer_json.Output("Y", {"binary_data": True}, binary=True, region=None),
            infer_json.Output("Z", {}, binary=False, region=None),
        ),
        binary_output=False,
    )


FAR = {**X, "parameters": {**REGION["parameters"], "shared_memory_offset": 2**70}}
SOURCES: dict[str, tuple[dict[str, Any], infer_json.Source]] = {
    "data": (INLINE, infer_json.Inline([b"0.5", b"1.5"])),
    "nested-data": ({**X, "data": [[0.5], [[1]]]}, infer_json.Inline([[b"0.5"], [[b"1"]]])),
    "scalar-data": ({**X, "shape": [], "data": 7}, infer_json.Inline(b"7")),
    "no-elements": ({**X, "shape": [0], "data": []}, infer_json.Inline([])),
    "special-tokens": (
        {**X, "data": [math.nan, -math.inf]},
        infer_json.Inline([b"NaN", b"-Infinity"]),
    ),
    "binary": (BINARY, infer_json.Binary(8)),
    "binary-beside-null": ({**BINARY, "data": None}, infer_json.Binary(8)),
    "no-bytes": ({**X, "parameters": {"binary_data_size": 0}}, infer_json.Binary(0)),
    "region": (REGION, infer_json.Region("r", 8, 0)),
    "region-with-offset": (FAR, infer_json.Region("r", 8, 2**70)),
}


@pytest.mark.parametrize(("tensor", "source"), SOURCES.values(), ids=SOURCES)
def test_each_source(tensor: dict[str, Any], source: infer_json.Source) -> None:
    found = read(request(tensor))
    assert found.inputs[0].source == source
    assert found.uses_shared_memory is isinstance(source, infer_json.Region)


@pytest.mark.parametrize(
    ("everywhere", "own", "binary"),
    [
        (None, None, False), (True, None, True), (False, None, False),
        (None, True, True), (True, False, False), (False, True, True),
    ],
)  # fmt: skip
def test_an_outputs_own_wish_for_bytes_comes_first(everywhere: Any, own: Any, binary: bool) -> None:
    parameters = {} if everywhere is None else {"binary_data_output": everywhere}
    output = {"name": "Y", "parameters": {} if own is None else {"binary_data": own}}
    found = read(request(INLINE, parameters=parameters, outputs=[output]))
    assert found.outputs[0].binary is binary
    assert found.binary_output is bool(everywhere)


def test_an_output_may_go_to_a_region() -> None:
    parameters = {**FAR["parameters"], "binary_data": False}
    found = read(request(INLINE, outputs=[{"name": "Y", "parameters": parameters}]))
    assert found.outputs[0].region == infer_json.Region("r", 8, 2**70)
    assert found.uses_shared_memory


def test_nulls_and_unknown_members_change_nothing() -> None:
    unknown = {"model_version": "7", "anything": {"else": [1]}}
    nulls = {"id": None, "parameters": None, "outputs": None}
    for members in (unknown, nulls, {"outputs": []}):
        assert read(request(INLINE, **members)) == read(request(INLINE))


GONE: Any = object()
DOCUMENT = request(INLINE, id="7", parameters={"timeout": 1}, outputs=[{"name": "Y"}])


def changed(document: Any, path: str, value: Any) -> Any:
    """A copy with this value at the path; its last object may be missing."""
    made = node = copy.deepcopy(document)
    *folders, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in folders:
        node = node.setdefault(step, {}) if isinstance(node, dict) else node[step]
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return made


SIZE, OFFSET = "inputs.0.parameters.binary_data_size", "inputs.0.parameters.shared_memory_offset"
#: A member, its value, and what the error says.
WRONG: list[tuple[str, Any, str]] = [
    ("inputs", GONE, "inputs: is required"),
    ("inputs", None, "inputs: must be an array, got null"),
    ("inputs", 7, "inputs: must be an array, got a number"),
    ("inputs", [INLINE, 7], "inputs.1: must be an object"),
    ("inputs.0", 7, "inputs.0: must be an object"),
    ("id", 7, "id: must be a string, got 7"),
    ("parameters", [], "parameters: must be an object, got an array"),
    ("parameters.a", None, "parameters.a: must be a string"),
    ("parameters.binary_data_output", 1, "binary_data_output: must be true or false, got 1"),
    ("parameters.strict_json", "true", "parameters.strict_json: must be true or false"),
    ("parameters.priority", "1", "parameters.priority: must be an"),
    ("parameters.timeout", -1, "parameters.timeout: must be at"),
    ("inputs.0.name", GONE, "inputs.0.name: is required"),
    ("inputs.0.name", 1, "inputs.0.name: must be a string, got 1"),
    ("inputs.0.datatype", GONE, "inputs.0.datatype: is required"),
    ("inputs.0.datatype", 1, "inputs.0.datatype: must be a string"),
    ("inputs.0.shape", GONE, "inputs.0.shape: is required"),
    ("inputs.0.shape", 2, "inputs.0.shape: must be an array"),
    ("inputs.0.shape", [1, 2.0], "inputs.0.shape.1: must be an integer"),
    ("inputs.0.data", GONE, "inputs.0: must have exactly one of data, binary_data_size and"),
    ("inputs.0.data", None, "exactly one"),
    (SIZE, 8, "exactly one"),
    ("inputs.0.parameters", {**REGION["parameters"], "binary_data_size": 8}, "got 3"),
    ("inputs.0", {**X, "parameters": {**REGION["parameters"], "binary_data_size": 8}}, "got 2"),
    (SIZE, "8", f"{SIZE}: must be an integer"),
    (SIZE, True, "must be an integer"),
    (SIZE, -8, "must be at least 0"),
    ("inputs.0.parameters.shared_memory_region", 1, "shared_memory_region: must be a string"),
    ("inputs.0.parameters.shared_memory_region", "r", "shared memory needs"),
    ("inputs.0.parameters.shared_memory_byte_size", 8, "shared memory needs"),
    (OFFSET, 8, "shared memory needs"),
    (OFFSET, -1, "shared_memory_offset: must be at least 0"),
    ("outputs", {}, "outputs: must be an array"),
    ("outputs.0", "Y", 'outputs.0: must be an object, got "Y"'),
    ("outputs.0.name", GONE, "outputs.0.name: is required"),
    ("outputs.0.parameters.binary_data", "true", "binary_data: must be true or false"),
    ("outputs.0.parameters.shared_memory_region", "r", "outputs.0.parameters: shared memory needs"),
]


@pytest.mark.parametrize(("path", "value", "says"), WRONG)
def test_wrong_members(path: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidDescriptor) as caught:
        read(changed(DOCUMENT, path, value))
    assert says in caught.value.detail
    assert "\n" not in caught.value.detail


VALUES: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", [], [[]], [None], {}, {"a": 1}]
FULL = changed(changed(DOCUMENT, SIZE, 8), "outputs.0.parameters", REGION["parameters"])


def paths(node: Any) -> Iterator[str]:
    """The way to every member of a document."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield str(key)
        if isinstance(node[key], dict | list):
            yield from (f"{key}.{rest}" for rest in paths(node[key]))


@pytest.mark.parametrize("path", list(paths(FULL)))
def test_any_value_anywhere_is_read_or_refused(path: str) -> None:
    for value in VALUES:
        with contextlib.suppress(InvalidDescriptor):
            read(changed(FULL, path, value))


MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "key-twice": (b'{"inputs":[],"inputs":[]}', "twice"),
    "deep": (b'{"inputs":' + b"[" * 100 + b"]" * 100 + b"}", "deeper"),
}


def test_json_that_is_no_object_is_not_malformed() -> None:
    with pytest.raises(InvalidDescriptor, match="must be a JSON object"):
        infer_json.read_request(b"[]")


@pytest.mark.parametrize(("head", "says"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_heads(head: bytes, says: str) -> None:
    with pytest.raises(MalformedJSON) as caught:
        infer_json.read_request(head)
    assert says in caught.value.detail


@pytest.mark.parametrize("value", ["0", "1", "007", "9" * 19])
def test_header_lengths(value: str) -> None:
    assert infer_json.read_header_length(value) == int(value)


@pytest.mark.parametrize(
    "value", ["", "-1", "+1", "1.0", "x", "0x10", " 1", "1, 1", "١", "²", "9" * 20, "9" * 5000]
)
def test_wrong_header_lengths_are_refused(value: str) -> None:
    with pytest.raises(InvalidDescriptor, match="Inference-Header-Content-Length"):
        infer_json.read_header_length(value)


def test_errors_repeat_nothing_at_length() -> None:
    secret = b'{"inputs":"' + b"SECRET" * 1000 + b'"}'
    for act in (infer_json.read_request, lambda head: infer_json.read_header_length(str(head))):
        with pytest.raises(RequestRefused) as caught:
            act(secret)
        assert len(caught.value.detail) < 200


MODEL = {"model_name": "m", "model_version": "1"}
Y = {"name": "Y", "datatype": "FP32", "shape": [2, 3]}


@pytest.mark.parametrize(
    ("members", "output", "data", "text"),
    [
        pytest.param(
            {"id": "é\n", **MODEL},
            {**Y, "parameters": {"dtype": "float8_e5m2", "binary_data_size": 1}},
            None,
            '{"id":"\\u00e9\\n","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3],'
            '"parameters":{"dtype":"float8_e5m2","binary_data_size":1}}]}',
            id="parameters",
        ),
        pytest.param(
            {"id": "", **MODEL},
            Y,
            [b"[NaN,", b"-0.0]"],
            '{"id":"","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3],"data":[NaN,-0.0]}]}',
            id="data",
        ),
    ],
)
def test_answers(members: Any, output: Any, data: Any, text: str) -> None:
    assert b"".join(write_response(members, output, data)) == text.encode()


@pytest.mark.parametrize("detail", ["plain", "two\nlines\r\n", 'quoted "x" \\', "\u2028\x00é"])
def test_errors_are_one_line(detail: str) -> None:
    body = write_error(detail)
    assert b"\n" not in body
    assert list(json.loads(body)) == ["error"]
    assert len(json.loads(body)["error"].splitlines()) == 1


def padded(document: dict[str, Any], length: int) -> bytes:
    head = json.dumps(document).encode()
    return head + b" " * (length - len(head))


def test_a_head_without_numbers_has_64_kib() -> None:
    infer_json.read_request(padded(request(BINARY), 64 << 10))
    with pytest.raises(TensorTooLarge, match="65536"):
        infer_json.read_request(padded(request(BINARY), (64 << 10) + 1))
    infer_json.read_request(padded(request(INLINE), (64 << 10) + 1))


def test_a_head_with_numbers_has_16_mib_more() -> None:
    limit = (16 << 20) + (64 << 10)
    infer_json.read_request(padded(request(INLINE), limit))
    with pytest.raises(TensorTooLarge) as caught:
        infer_json.read_request(padded(request(INLINE), limit + 1))
    assert caught.value.limit_bytes == limit


def test_numbers_may_nest_as_deep_as_the_highest_rank_and_their_request() -> None:
    def nested(depth: int) -> bytes:
        return (
            json.dumps(request(INLINE))
            .encode()
            .replace(json.dumps(INLINE["data"]).encode(), b"[" * depth + b"1" + b"]" * depth)
        )

    infer_json.read_request(nested(65))
    with pytest.raises(MalformedJSON, match="nests deeper than 68"):
        infer_json.read_request(nested(66))


#: Documents around many items of one kind.
HOSTILE: dict[str, tuple[bytes, Callable[[int], str]]] = {
    "arrays": (
        b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[%s[]]}]}',
        lambda index: "[" * 60 + "0" + "]" * 60,
    ),
    "members": (b'{"parameters":{%s"a":0},"inputs":[]}', lambda index: f'"{index:x}":0'),
}


@pytest.mark.parametrize(("around", "item"), HOSTILE.values(), ids=HOSTILE)
def test_oversized_document_is_refused_before_it_is_parsed(
    around: bytes, item: Callable[[int], str]
) -> None:
    count = (8 << 20) // (len(item(1 << 20)) + 1)
    head = around % "".join(f"{item(index)}," for index in range(count)).encode()
    with traced() as most:
        with pytest.raises(MalformedJSON, match="more than"):
            infer_json.read_request(head)
        assert most() < 5 << 20


def test_values_beside_the_data_are_bounded() -> None:
    known = {**INLINE, "data": [0.5] * 100_000}
    few, many = ({"inputs": [known], "outputs": [0] * count} for count in (30_000, 40_000))
    with pytest.raises(InvalidDescriptor):
        infer_json.read_request(json.dumps(few).encode())
    with pytest.raises(MalformedJSON, match="beside the data"):
        infer_json.read_request(json.dumps(many).encode())


@pytest.mark.parametrize("member", [{"id": "x"}, {"x": 1}], ids=["value", "key"])
def test_a_text_beside_the_data_has_64_kib(member: dict[str, Any]) -> None:
    for length in (65_536, 65_537):
        head = json.dumps(request(INLINE, **member)).replace("x", "x" * length).encode()
        refused = pytest.raises(MalformedJSON, match="text of more than 65536 characters")
        with refused if length > 65_536 else contextlib.nullcontext():
            infer_json.read_request(head)


def test_a_request_and_its_numbers_take_no_more_than_the_census_says() -> None:
    for data in ([0] * 100_000, [[-1.5]] * 50_000, ["Infinity"] * 50_000):
        head = json.dumps({"inputs": [{**X, "shape": [len(data)], "data": data}]}).encode()
        with traced() as most:
            (tensor,) = infer_json.read_request(head).inputs
            assert isinstance(tensor.source, infer_json.Inline)
            dtype = BY_NAME["float32"]
            jsontensor.read(tensor.source.data, dtype, tensor.shape, any_nesting=True)
            assert most() <= measure_json(head).nbytes
