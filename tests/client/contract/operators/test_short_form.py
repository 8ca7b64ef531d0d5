"""Descriptors in their short form: one word, a dtype and a shape."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round as tr
from support.cases import descriptors
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.registry import (
    DIALECTS,
    WORDS,
    operator_from_text,
    operators_on,
)


def read(operator: object, dtype: object = "float32", shape: object = (2, 2, 1, 1)) -> Any:
    sizes = list(shape) if isinstance(shape, tuple) else shape
    return registry.validate({"operator": operator, "dtype": dtype, "shape": sizes})


@pytest.mark.parametrize("word", [*tr.Rounding, *WORDS, "onnx:13", "directml:TOWARD_ZERO:3_0"])
def test_a_word_is_the_descriptor_of_its_operator(word: str) -> None:
    expected = operator_from_text(word).descriptor("float32", (2, 2, 1, 1))
    assert read(word) == expected


@pytest.mark.parametrize("name", DIALECTS)
def test_an_object_has_the_attributes_of_the_dialects_operator(name: str) -> None:
    dialect = DIALECTS[name]
    # The example's operator, by its attributes alone.
    operator = dialect.object.of(dialect.descriptor.read(dialect.descriptor.example))
    attributes = {key: getattr(operator, key) for key in operator.attributes()}
    assert read({"dialect": name, **attributes}) == operator.descriptor("float32", (2, 2, 1, 1))


def test_missing_field_has_the_dialects_default() -> None:
    assert read({"dialect": "directml", "rounding_mode": "TOWARD_ZERO"}).feature_level == "3_0"
    assert read({"dialect": "onnx"}) == tr.OnnxRound().descriptor("float32", (2, 2, 1, 1))


@pytest.mark.parametrize(
    ("given", "loc", "why"),
    [
        (("onnx", "int8"), "dtype", "Round takes FLOAT16, FLOAT, DOUBLE, BFLOAT16"),
        (("onnx", "float33"), "dtype", "did you mean float32"),
        (("onnx", ["float32"]), "dtype", "accepted: float16"),
        (("onnx", "float32", [True]), "shape", "must be a list of integers"),
        (("onnx", "float32", 3), "shape", "must be a list of integers"),
        (("webnn", "float32", [0]), "shape", "must be at least 1"),
        (("directml:TOWARD_ZERO:2_1", "float32", [2]), "shape", "exactly 4 dimensions, got 1"),
        (("webn",), "operator", "did you mean webnn"),
        ((None,), "operator", "must be a word, or an object"),
        (({"dialect": ["onnx"]},), "operator", "must be a word, or an object"),
        (({"dialect": "onnx", "opset_version": 99},), "operator", "newest opset known here is 28"),
        (
            ({"dialect": "onnx", "opset": 13},),
            "operator.opset",
            "unknown attribute; accepted: opset_version",
        ),
        (({"dialect": "webnn", "op": "x"},), "operator.op", "unknown attribute; accepted: none"),
    ],
)
def test_faults_name_the_member(given: tuple[Any, ...], loc: str, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why) as caught:
        read(*given)
    assert {".".join(map(str, fault.loc)) for fault in caught.value.faults} == {loc}


def test_the_members_are_these_three() -> None:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        registry.validate({"operator": "onnx", "dialect": "onnx", "dtype": "float32"})
    assert [(fault.loc, fault.msg) for fault in caught.value.faults] == [
        (("dialect",), "unknown field; accepted: operator, dtype, shape"),
        (("shape",), "is required"),
    ]


@pytest.mark.parametrize(
    ("dtype", "shape", "takers"),
    [
        ("float16", (1, 1, 2, 3), "onnx openvino directml webnn stablehlo mlir"),
        ("int8", (2,), "openvino array_api"),
        ("float64", (0,), "onnx openvino stablehlo array_api mlir"),
        ("float32", (1,) * 33, ""),
    ],
    ids=["float16", "int8", "empty", "33 dimensions"],
)
def test_the_words_that_accept_a_tensor_are_listed_by_direction(
    dtype: str, shape: tuple[int, ...], takers: str
) -> None:
    assert operators_on(dtype, shape) == {
        rounding: tuple(word for word in words if word.partition(":")[0] in takers.split())
        for rounding, words in descriptors.WORDS.items()
    }
