"""Messages on the wire, held by the protobuf package on the same descriptors."""

from __future__ import annotations

import ast
import importlib.metadata
import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from support.http.grpc_client import FILES, theirs
from tensor_round_service.grpc.messages import SCHEMA
from tensor_round_service.grpc.protobuf import (
    CutOff,
    Field,
    Malformed,
    Type,
    read_varint,
    varint,
)

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
        assert theirs(name)(**plain(read)) == message


def plain(value: Any) -> Any:
    """The value with bytes in place of views."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
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
        assert theirs(name)(**plain(read)) == message


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
