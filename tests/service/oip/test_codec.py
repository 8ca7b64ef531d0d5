"""Inference requests: what each member means, and every way in which one can be wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support.cases.inference_requests import BINARY, INLINE, REGION, X, read, request
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round_service.oip import codec


def test_the_least_request() -> None:
    assert read(request(INLINE)) == codec.Request(
        id=None,
        parameters={},
        inputs=(codec.Input("X", "FP32", (2,), {}, codec.Inline([b"0.5", b"1.5"])),),
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
    assert read(document) == codec.Request(
        id="seven",
        parameters=document["parameters"],
        inputs=(
            codec.Input(
                "X", "FP32", (2,), {"binary_data_size": 8, "dtype": "float32"}, codec.Binary(8)
            ),
        ),
        outputs=(
            codec.Output("Y", {"binary_data": True}, binary=True, region=None),
            codec.Output("Z", {}, binary=False, region=None),
        ),
        binary_output=False,
    )


def test_the_numbers_of_a_request_and_the_length_of_its_header() -> None:
    """What is freed in pieces later, and what the numbers cost."""
    assert read(request(INLINE)).data == [[b"0.5", b"1.5"]]
    of_no_header = codec.request_of({"inputs": [BINARY]}, [None])
    assert (of_no_header.data, of_no_header.header_length) == ([], 0)
    assert codec.Request(None, {}, (), (), binary_output=True).header_length == 0


SOURCES: dict[str, tuple[dict[str, Any], codec.Source]] = {
    "data": (INLINE, codec.Inline([b"0.5", b"1.5"])),
    "nested-data": ({**X, "data": [[0.5], [[1]]]}, codec.Inline([[b"0.5"], [[b"1"]]])),
    "scalar-data": ({**X, "shape": [], "data": 7}, codec.Inline(b"7")),
    "no-elements": ({**X, "shape": [0], "data": []}, codec.Inline([])),
    "special-tokens": ({**X, "data": [math.nan, -math.inf]}, codec.Inline([b"NaN", b"-Infinity"])),
    "binary": (BINARY, codec.Binary(8)),
    "binary-beside-null": ({**BINARY, "data": None}, codec.Binary(8)),
    "no-bytes": ({**X, "parameters": {"binary_data_size": 0}}, codec.Binary(0)),
    "region": (REGION, codec.Region("r", 8, 0)),
    "region-with-offset": (
        {**X, "parameters": {**REGION["parameters"], "shared_memory_offset": 2**70}},
        codec.Region("r", 8, 2**70),
    ),
}


@pytest.mark.parametrize(("tensor", "source"), SOURCES.values(), ids=SOURCES)
def test_each_source(tensor: dict[str, Any], source: codec.Source) -> None:
    found = read(request(tensor))
    assert found.inputs[0].source == source
    assert found.uses_shared_memory is isinstance(source, codec.Region)


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
    assert found.outputs[0].region == codec.Region("r", 9, 4)
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
def test_optional_members_change_nothing(members: dict[str, Any]) -> None:
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
