"""Inference requests and responses on the wire, held by the protobuf package."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from support.http.grpc_client import plain, theirs
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round_service.grpc.messages import find_tensor, read_request, response_head
from tensor_round_service.grpc.protobuf import fields, varint
from tensor_round_service.oip import codec

REQUEST = theirs(".inference.ModelInferRequest")
RESPONSE = theirs(".inference.ModelInferResponse")


def request(**others: Any) -> Any:
    made = REQUEST(model_name="round", model_version="1", id="an id")
    tensor = made.inputs.add(name="X", datatype="FP32", shape=[2, 3])
    tensor.parameters["a"].int64_param = -5
    made.parameters["rounding"].string_param = "ceil"
    made.parameters["flag"].bool_param = False
    made.parameters["large"].uint64_param = 1 << 63
    made.parameters["real"].double_param = 0.5
    output = made.outputs.add(name="Y")
    output.parameters["binary_data"].bool_param = False
    return json_format.ParseDict(others, made) if others else made


RAW = np.arange(6, dtype="<f4").tobytes()


def test_a_request_whose_tensor_follows() -> None:
    made = request()
    head = made.SerializeToString()
    made.raw_input_contents.append(RAW)
    message = made.SerializeToString()
    assert find_tensor(message) == (len(head), len(message) - len(RAW), len(RAW))
    read = read_request(message[: len(head)], len(RAW))
    assert (read.model_name, read.model_version, read.tensor) == ("round", "1", None)
    assert read.request == codec.Request(
        id="an id",
        parameters={"rounding": "ceil", "flag": False, "large": 1 << 63, "real": 0.5},
        inputs=(
            codec.Input("X", "FP32", (2, 3), {"a": -5, "binary_data_size": 24}, codec.Binary(24)),
        ),
        outputs=(codec.Output("Y", {}, True, None),),
        binary_output=True,
    )
    whole = read_request(message)
    assert whole.request == read.request
    assert bytes(whole.tensor or b"") == RAW


def test_a_tensor_is_found_as_soon_as_it_begins() -> None:
    made = request()
    made.raw_input_contents.append(bytes(1000))
    message = made.SerializeToString()
    found = find_tensor(message)
    assert found is not None
    for length in range(len(message)):
        expected = found if length >= found[1] else None
        assert find_tensor(message[:length]) == expected


def test_fields_in_any_order() -> None:
    made = request()
    made.raw_input_contents.append(RAW)
    message = memoryview(made.SerializeToString() + b"\xf8\x07\x05")  # a field that is not known
    ends = [0, *(end for *_, end in fields(message, 0, len(message)))]
    parts = [bytes(message[begin:end]) for begin, end in pairwise(ends)]
    expected = read_request(bytes(message)).request
    rng = random.Random(1)
    for _ in range(20):
        rng.shuffle(parts)
        read = read_request(b"".join(parts))
        assert (read.model_name, read.model_version) == ("round", "1")
        assert read.request == expected
        assert bytes(read.tensor or b"") == RAW


TYPED = {
    "INT8": ("int_contents", [-128, 127, 0]),
    "INT16": ("int_contents", [-(2**15), 2**15 - 1, 300]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1, -1]),
    "INT64": ("int64_contents", [-(2**63), 2**63 - 1, 1]),
    "UINT8": ("uint_contents", [0, 255, 128]),
    "UINT16": ("uint_contents", [0, 2**16 - 1, 300]),
    "UINT32": ("uint_contents", [0, 2**32 - 1, 2**31]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1, 2**63]),
    "FP32": ("fp32_contents", [0.5, -0.0, float("nan"), float("inf")]),
    "FP64": ("fp64_contents", [0.5, -0.0, float("nan"), 1e300]),
}
NUMPY = {"FP32": "<f4", "FP64": "<f8"}


def typed(datatype: str, field: str, numbers: list[Any]) -> Any:
    made = REQUEST(model_name="round")
    tensor = made.inputs.add(name="X", datatype=datatype, shape=[len(numbers)])
    getattr(tensor.contents, field).extend(numbers)
    return made


def unpacked(message: Any, field: str, numbers: list[Any], datatype: str) -> bytes:
    """The same request with each number in a field of its own."""
    tensor = message.inputs[0]
    number = tensor.contents.DESCRIPTOR.fields_by_name[field].number
    kind = {"FP32": 5, "FP64": 1}.get(datatype, 0)
    contents = b"".join(
        varint(number << 3 | kind)
        + (np.array(each, NUMPY[datatype]).tobytes() if kind else varint(each))
        for each in numbers
    )
    tensor.ClearField("contents")
    raw = tensor.SerializeToString() + b"\x2a" + varint(len(contents)) + contents
    return b"\x2a" + varint(len(raw)) + raw


@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "one by one"])
@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents(datatype: str, is_packed: bool) -> None:
    field, numbers = TYPED[datatype]
    made = typed(datatype, field, numbers)
    content = made.SerializeToString()
    if not is_packed:
        content = unpacked(made, field, numbers, datatype)
    read = read_request(content)
    expected = np.array(numbers, NUMPY.get(datatype, datatype.lower())).tobytes()
    assert read.tensor == expected
    assert read.request.inputs[0].source == codec.Binary(len(expected))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=200))
def test_packed_integers(numbers: list[int]) -> None:
    read = read_request(typed("INT64", "int64_contents", numbers).SerializeToString())
    assert read.tensor == np.array(numbers, "<i8").tobytes()


def two_sources() -> Any:
    made = typed("FP32", "fp32_contents", [1.0])
    made.raw_input_contents.append(RAW)
    return made


def in_region(**others: Any) -> Any:
    made = REQUEST(model_name="round", **others)
    tensor = made.inputs.add(name="X", datatype="FP32", shape=[6])
    tensor.parameters["shared_memory_region"].string_param = "r"
    tensor.parameters["shared_memory_byte_size"].int64_param = 24
    return made


REFUSED = {
    "no source": (REQUEST(inputs=[{"name": "X"}]), "must have one of contents, raw_input_contents"),
    "two raw tensors": (request(raw_input_contents=["", ""]), "more raw_input_contents"),
    "two sources": (two_sources(), "more raw_input_contents"),
    "a region and a tensor": (in_region(raw_input_contents=[RAW]), "more raw_input_contents"),
    "FP16 as numbers": (typed("FP16", "fp32_contents", [1.0]), "has no typed contents"),
    "numbers of another type": (typed("FP32", "fp64_contents", [1.0]), "must be in one list"),
    "numbers that a type does not have": (
        typed("INT8", "int_contents", [128]),
        "that INT8 does not have",
    ),
    "a negative size": (
        request(parameters={"timeout": {"int64_param": -1}}, raw_input_contents=[RAW]),
        "timeout",
    ),
    "a size as text": (
        request(parameters={"priority": {"string_param": "1"}}, raw_input_contents=[RAW]),
        "priority",
    ),
    "a parameter without a value": (
        request(parameters={"p": {}}, raw_input_contents=[RAW]),
        "must have one value",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_invalid_request_is_refused_with_the_reason(case: tuple[Any, str]) -> None:
    made, reason = case
    with pytest.raises(InvalidDescriptor, match=reason):
        read_request(made.SerializeToString())


def test_contents_without_numbers() -> None:
    made = REQUEST(model_name="round", inputs=[{"name": "X", "datatype": "FP32", "shape": [0]}])
    made.inputs[0].contents.SetInParent()
    read = read_request(made.SerializeToString())
    assert (read.request.inputs[0].source, read.tensor) == (codec.Binary(0), b"")
    made.raw_input_contents.append(RAW)
    assert bytes(read_request(made.SerializeToString()).tensor or b"") == RAW


def test_a_region_as_a_source() -> None:
    read = read_request(in_region().SerializeToString())
    assert read.request.inputs[0].source == codec.Region("r", 24, 0)
    assert read.tensor is None


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\xff" * 20, b"\x2a\x02\x2a\x00\x08"])
def test_bytes_that_are_not_a_request_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidDescriptor):
        read_request(data)


def test_a_wrong_field_before_the_tensor() -> None:
    with pytest.raises(InvalidDescriptor):
        find_tensor(b"\x0b" + bytes(20))


def test_a_response() -> None:
    values = {"b": False, "i": -1, "f": 0.5, "s": "", "n": 0}
    output = {"name": "Y", "datatype": "FP32", "shape": [2, 3], "parameters": values}
    members = {"model_name": "round", "model_version": "1", "id": "an id"}
    choices = {
        "b": {"bool_param": False},
        "i": {"int64_param": -1},
        "f": {"double_param": 0.5},
        "s": {"string_param": ""},
        "n": {"int64_param": 0},
    }
    expected = {**members, "parameters": {}, "outputs": [{**output, "parameters": choices}]}
    head = response_head(members, output, len(RAW))
    assert plain(RESPONSE.FromString(head + RAW)) == {**expected, "raw_output_contents": [RAW]}
    del members["id"]
    without = plain(RESPONSE.FromString(response_head(members, output, None)))
    assert without == {**expected, "raw_output_contents": [], "id": ""}
