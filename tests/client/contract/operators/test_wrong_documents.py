"""Documents that are no descriptor: without a dialect, vast, deep or oddly quoted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.cases.descriptors import faults, varied
from support.cases.dialect import ABSENT, Document
from tensor_round import OnnxDescriptor
from tensor_round.clients.execution import read_descriptor
from tensor_round.contract.errors import InvalidDescriptor, MalformedJSON, problem
from tensor_round.contract.operators.registry import DIALECTS, parse, validate

# document, the message's end
NO_DIALECT: dict[str, tuple[Any, str]] = {
    "none": ({}, "is required: one of "),
    "unknown": ({"dialect": "torch"}, 'got "torch"'),
    "upper case": ({"dialect": "ONNX"}, 'got "ONNX"; did you mean onnx?'),
    "list": ({"dialect": ["onnx"]}, "got an array"),
}


@pytest.mark.parametrize(("document", "begin"), NO_DIALECT.values(), ids=NO_DIALECT)
def test_without_a_dialect_all_are_named(document: Any, begin: str) -> None:
    found = faults(document)

    assert found.keys() == {"dialect"}
    assert found["dialect"].startswith(begin)
    assert found["dialect"].endswith(", ".join(DIALECTS))


@pytest.mark.parametrize(
    ("document", "got"), [([], "an array"), ("onnx", '"onnx"'), (1, "1"), (None, "null")]
)
def test_descriptor_must_be_an_object(document: Any, got: str) -> None:
    rule = f"a descriptor must be an object with dialect or operator, got {got}"
    assert faults(document) == {"": rule}


def test_a_long_value_is_not_echoed() -> None:
    found = faults(varied("onnx", {"op_type": "R" * 10_000, "x" * 10_000: 1}))

    assert all(len(path) <= 40 and len(message) < 130 for path, message in found.items())


@pytest.mark.parametrize("levels", [505, 5000])
@pytest.mark.parametrize("nest", [lambda inner: {"a": inner}, lambda inner: [inner]])
def test_a_deep_document_of_a_caller_is_refused(nest: Callable[[Any], Any], levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = nest(deep)

    for document in ({"dialect": "onnx", "op_type": "Round", "x": deep}, {"operator": deep}):
        with pytest.raises(InvalidDescriptor):
            read_descriptor(document)
    with pytest.raises(InvalidDescriptor):
        OnnxDescriptor(op_type="Round", opset_version=22, input=deep)


def test_quoted_input_never_breaks_the_message() -> None:
    document = varied("openvino", {"data.mode": "{message}\n", "a\nb": 1, "{x}": 1})

    found = faults(document)

    assert found.keys() == {"data.mode", "a\\nb", "{x}"}
    assert found["data.mode"].startswith('got "{message}\\n"; openvino')


def test_a_lone_surrogate_never_reaches_an_answer() -> None:
    for document in (
        varied("onnx", {"\ud800": 1}),
        varied("onnx", {"op_type": "\ud800"}),
        {"dialect": "\ud800"},
    ):
        with pytest.raises(InvalidDescriptor) as refused:
            validate(document)
        json.dumps(problem(refused.value), ensure_ascii=False).encode("utf-8")


VAST: dict[str, Document] = {
    "unknown fields": varied("onnx", {str(n): n for n in range(100_000)}),
    "sizes": varied("onnx", {"input.shape": ["x"] * 100_000}),
    "nested lists": varied("onnx", {"input.shape": [[[]] * 500] * 500}),
}


@pytest.mark.parametrize("document", VAST.values(), ids=VAST)
def test_a_vast_document_is_refused_at_once_and_in_few_words(document: Document) -> None:
    start = time.thread_time()
    with pytest.raises(InvalidDescriptor) as refused:
        validate(document)

    assert time.thread_time() - start < 0.2
    assert len(refused.value.detail) < 10_000


@pytest.mark.parametrize("item", ['"%05x":0', '"%05x":[]', '"%05x":{"a":1}'])
def test_a_vast_text_is_refused_before_anything_is_made_of_it(item: str) -> None:
    few, many = ("{" + ",".join(item % i for i in range(n)) + "}" for n in (100, 1000))
    with pytest.raises(InvalidDescriptor, match="dialect: is required"):
        parse(few.encode())
    with pytest.raises(MalformedJSON, match="512 values"):
        parse(many.encode())


def test_as_many_faults_as_are_listed_are_all() -> None:
    for count in (32, 33, 100):
        with pytest.raises(InvalidDescriptor) as refused:
            validate(varied("onnx", {str(n): n for n in range(count)}))
        told = [fault.msg for fault in refused.value.faults]
        assert told == ["unknown field"] * 32 + [f"and {count - 32} more errors"] * (count > 32)


def test_a_text_nests_sixteen_levels_deep_and_a_document_has_512_values() -> None:
    deep = [b'{"dialect":"onnx","a":' + b"[" * n + b"]" * n + b"}" for n in (15, 16)]
    with pytest.raises(InvalidDescriptor, match="a: unknown field"):
        parse(deep[0])
    with pytest.raises(MalformedJSON, match="deeper than 16"):
        parse(deep[1])
    # Three members of the document, their keys not counted.
    short = [{"operator": "onnx", "dtype": "float32", "shape": [1] * n} for n in (509, 510)]
    with pytest.raises(InvalidDescriptor, match="shape: must have at most 32 dimensions, got 509"):
        validate(short[0])
    with pytest.raises(InvalidDescriptor, match="must have at most 512 values"):
        validate(short[1])


@pytest.mark.parametrize("place", ["operand", "f" * 65_537], ids=["value", "key"])
def test_a_text_in_a_document_has_64_kib(place: str) -> None:
    document = {"dialect": "stablehlo", "op": "floor", "operand": "tensor<2xf32>"}
    for length, is_long in ((65_536, False), (65_537, True)):
        found = faults({**document, place[:length]: "f" * length})
        long = {"": "a text in a descriptor must have at most 65536 characters"}
        assert (found == long) is is_long


@pytest.mark.parametrize(
    ("path", "changed", "meant"),
    [
        ("roundng", {"rounding": ABSENT}, "rounding"),
        ("input.dtpe", {"input.dtype": ABSENT}, "dtype"),
    ],
)
def test_unknown_field_suggests_the_one_of_a_similar_name(
    path: str, changed: dict[str, Any], meant: str
) -> None:
    found = faults(varied("ieee754", {path: "x", **changed}))
    assert found[path] == f"unknown field; did you mean {meant}?"
