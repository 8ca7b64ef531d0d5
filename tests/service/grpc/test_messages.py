"""Messages on the wire, held by the protobuf package on the same descriptors.

First every message, then the requests and responses of inferences.
"""

from __future__ import annotations

import ast
import importlib.metadata
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from support.http.grpc_client import FILES, plain, theirs
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.progress import no_pause
from tensor_round_service.grpc.messages import (
    SCHEMA,
    find_tensor,
    packed_varints,
    read_request,
    response_head,
)
from tensor_round_service.grpc.protobuf import (
    CutOff,
    Field,
    Malformed,
    Type,
    fields,
    read_varint,
    varint,
)
from tensor_round_service.oip import infer_json

MANY = 1 << 20
#: The messages that a service reads or writes; those of model_config.proto are written in part.
NAMES = sorted(name for name in SCHEMA.messages if name not in SCHEMA.maps)
#: Of which fields each message has one.
CHOICES = {
    name: {each.name for choice in theirs(name).DESCRIPTOR.oneofs for each in choice.fields}
    for name in NAMES
}


def test_the_descriptors_are_those_of_tritonclient() -> None:
    """As they are in the modules that protoc has made for it."""
    stored = {each.name: each.SerializeToString() for each in FILES.file}
    files = importlib.metadata.distribution("tritonclient").files or []
    for name, path in [
        ("grpc_service.proto", "tritonclient/grpc/service_pb2.py"),
        ("model_config.proto", "tritonclient/grpc/model_config_pb2.py"),
    ]:
        (module,) = [each.locate() for each in files if str(each) == path]
        tree = ast.walk(ast.parse(Path(str(module)).read_text()))
        literals = [node.value for node in tree if isinstance(node, ast.Constant)]
        assert stored[name] in literals


def value(of: Type, rng: random.Random) -> Any:
    match of:
        case Type.STRING:
            return rng.choice(["", "a", "ünï", "x" * 200])
        case Type.BYTES:
            return rng.randbytes(rng.choice([0, 1, 300]))
        case Type.BOOL:
            return rng.random() < 0.5
        case Type.DOUBLE | Type.FLOAT:
            return rng.choice([0.0, 1.5, float("inf"), -(2.0**20)])
        case Type.ENUM:
            return rng.choice([0, 1])
    bits = 32 if of in (Type.INT32, Type.UINT32) else 64
    number = rng.getrandbits(rng.choice([1, 7, 8, 14, bits]))
    signed = of in (Type.INT32, Type.INT64)
    return number - (number >> (bits - 1) << bits) if signed else number


def drawn(name: str, rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """A message of any content, of which a choice has one."""
    message: dict[str, Any] = {}
    for field in SCHEMA.messages[name].values():
        is_chosen = field.name in CHOICES[name] and CHOICES[name] & message.keys()
        if rng.random() < 0.4 or is_chosen:
            continue
        if field.message in SCHEMA.maps:
            key, item = (SCHEMA.messages[field.message][number] for number in (1, 2))
            keys = dict.fromkeys(value(key.type, rng) for _ in range(rng.randrange(3)))
            message[field.name] = {each: one(item, rng, depth) for each in keys}
        elif field.is_repeated:
            message[field.name] = [one(field, rng, depth) for _ in range(rng.randrange(4))]
        else:
            message[field.name] = one(field, rng, depth)
    return message


def one(field: Field, rng: random.Random, depth: int) -> Any:
    if field.type is not Type.MESSAGE:
        return value(field.type, rng)
    return drawn(field.message, rng, depth - 1) if depth else {}


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_written_and_read_as_theirs(name: str) -> None:
    rng = random.Random(name)
    for _ in range(20):
        values = drawn(name, rng)
        message = theirs(name)(**values)
        written = SCHEMA.write(name, values)
        assert theirs(name).FromString(written) == message
        read = SCHEMA.read(name, message.SerializeToString(), MANY)
        assert theirs(name)(**without_views(read)) == message


def without_views(value: Any) -> Any:
    """The value with bytes in place of views."""
    if isinstance(value, dict):
        return {name: without_views(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_views(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


@settings(max_examples=600)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_by_both_or_mean_the_same(data: bytes) -> None:
    name = ".inference.ModelInferRequest"
    try:
        message = theirs(name).FromString(data)
    except (DecodeError, UnicodeDecodeError):
        with pytest.raises(Malformed):
            SCHEMA.read(name, data, MANY)
        return
    try:
        read = SCHEMA.read(name, data, MANY)
    except Malformed as error:
        # Groups, which proto3 has not, and what is there twice, are refused here alone.
        if "wire type" not in str(error) and "twice" not in str(error):
            raise
    else:
        message.DiscardUnknownFields()
        assert theirs(name)(**without_views(read)) == message


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_numbers(number: int, behind: bytes) -> None:
    encoded = varint(number)
    assert read_varint(encoded + behind, 0, len(encoded + behind)) == (number, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(CutOff):
            read_varint(encoded[:length], 0, length)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 11,  # a number of more than ten bytes
        b"\x00",  # field 0
        b"\x0b",  # a group
        b"\x0a\x05ab",  # cut off
        b"\x0a\x01\xff",  # not UTF-8
        b"\x08\x01",  # a string as a number
        b"\x2a\x02\x1a\x03",  # a field longer than its message
    ],
    ids=lambda data: data.hex(),
)
def test_malformed_message_is_rejected(data: bytes) -> None:
    with pytest.raises(Malformed):
        SCHEMA.read(".inference.ModelInferRequest", data, MANY)


def test_values_are_counted() -> None:
    name = ".inference.ModelMetadataResponse"
    written = SCHEMA.write(name, {"versions": ["1"] * 100})
    assert len(SCHEMA.read(name, written, 100)["versions"]) == 100
    with pytest.raises(Malformed, match="too many"):
        SCHEMA.read(name, written, 99)
    shape = SCHEMA.write(".inference.ModelInferRequest", {"inputs": [{"shape": [1] * 100}]})
    with pytest.raises(Malformed, match="too many"):
        SCHEMA.read(".inference.ModelInferRequest", shape, 100)


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
    assert (read.model_name, read.model_version, read.tensors) == ("round", "1", [])
    assert read.request == infer_json.Request(
        id="an id",
        parameters={"rounding": "ceil", "flag": False, "large": 1 << 63, "real": 0.5},
        inputs=(
            infer_json.Input(
                "X", "FP32", (2, 3), {"a": -5, "binary_data_size": 24}, infer_json.Binary(24)
            ),
        ),
        outputs=(infer_json.Output("Y", {}, True, None),),
        binary_output=True,
    )
    whole = read_request(message)
    assert whole.request == read.request
    assert b"".join(whole.tensors) == RAW


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
        assert b"".join(read.tensors) == RAW


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
    assert b"".join(read.tensors) == expected
    assert read.request.inputs[0].source == infer_json.Binary(len(expected))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=200))
def test_packed_integers(numbers: list[int]) -> None:
    read = read_request(typed("INT64", "int64_contents", numbers).SerializeToString())
    assert b"".join(read.tensors) == np.array(numbers, "<i8").tobytes()
    assert read.is_typed
    written = b"".join(packed_varints(read.tensors, "INT64", no_pause))
    output = {"name": "Y", "datatype": "INT64", "shape": [len(numbers)]}
    head = response_head({"model_name": "m"}, output, len(written), is_typed=True)
    output["contents"] = {"int64_contents": numbers}
    assert RESPONSE.FromString(head + written) == RESPONSE(model_name="m", outputs=[output])


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
        "beyond the range of INT8",
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
    assert (read.request.inputs[0].source, read.tensors) == (infer_json.Binary(0), [b""])
    made.raw_input_contents.append(RAW)
    assert b"".join(read_request(made.SerializeToString()).tensors) == RAW


def test_a_region_as_a_source() -> None:
    read = read_request(in_region().SerializeToString())
    assert read.request.inputs[0].source == infer_json.Region("r", 24, 0)
    assert read.tensors == []


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
