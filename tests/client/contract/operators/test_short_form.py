"""Descriptors in their short form: one word, a dtype and a shape."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round as tr
from support.cases import descriptors
from support.cases.descriptors import CASES
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.operator import Kind
from tensor_round.contract.operators.registry import (
    DIALECTS,
    OPERATORS,
    WORDS,
    operator_from_text,
    operators_on,
)


def read(
    operator: object, dtype: object = "float32", shape: object = (2, 2, 1, 1), **members: object
) -> Any:
    sizes = list(shape) if isinstance(shape, tuple) else shape
    return registry.validate({"operator": operator, "dtype": dtype, "shape": sizes, **members})


@pytest.mark.parametrize("word", [*tr.Rounding, *WORDS, "onnx:13", "directml:TOWARD_ZERO:3_0"])
def test_a_word_is_the_descriptor_of_its_operator(word: str) -> None:
    expected = operator_from_text(word).descriptor("float32", (2, 2, 1, 1))
    assert read(word) == expected


@pytest.mark.parametrize(
    ("word", "to"),
    [(word, cases.to) for cases in CASES.values() if cases.to for word in cases.words],
)
def test_a_word_with_a_target_is_the_descriptor_of_its_cast(word: str, to: Any) -> None:
    expected = operator_from_text(word, to=to).descriptor("float32", (2, 2, 1, 1))
    assert read(word, to=to) == expected


@pytest.mark.parametrize("key", CASES)
def test_an_object_has_the_attributes_of_the_operator(key: str) -> None:
    row, operator = OPERATORS[key], CASES[key].operator[0]
    attributes = {name: getattr(operator, name) for name in operator.attributes()}
    given = {name: value for name, value in attributes.items() if value is not None}
    tensors, members = {}, {}
    if len(row.tensors) > 1:
        dtype = given.get("to") if row.kind is Kind.QUANTIZE else "int8"
        tensors = {"scale": ("float32", []), "zero_point": (dtype, [])}
        members = {k: {"dtype": one, "shape": size} for k, (one, size) in tensors.items()}
    dtype = "int8" if row.kind is Kind.DEQUANTIZE else "float32"
    make: Any = operator
    shape = (2, 3, 1, 1)
    expected = make.descriptor(dtype, shape, **tensors)
    name = {"operator": row.name} if key != row.dialect else {}
    assert read({"dialect": row.dialect, **name, **given}, dtype, shape, **members) == expected
    if row.kind is Kind.CAST:
        to = given.pop("to")
        assert read({"dialect": row.dialect, **name, **given}, dtype, shape, to=to) == expected
        assert read({"dialect": row.dialect, **given}, dtype, shape, to=to) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_object_names_the_operator_as_its_descriptor_does(dialect: str) -> None:
    row = DIALECTS[dialect]
    for text, name in row.spellings.items():
        if row.operator_named(name).rounds_to_integral and isinstance(text, str):
            found = read({"dialect": dialect, "operator": text})
            assert getattr(found, row.operator_field) == name


def test_missing_field_has_the_dialects_default() -> None:
    assert read({"dialect": "directml", "rounding_mode": "TOWARD_ZERO"}).feature_level == "3_0"
    assert read({"dialect": "onnx"}) == tr.OnnxRound().descriptor("float32", (2, 2, 1, 1))


@pytest.mark.parametrize(
    ("given", "loc", "why"),
    [
        (("onnx", "int8"), "dtype", "onnx: rounding takes FLOAT16, FLOAT, DOUBLE, BFLOAT16"),
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
        (("onnx:Cast:24",), "operator", "it needs to, the target type"),
        (({"dialect": "onnx", "operator": "Cast"},), "operator.to", "is required"),
        (({"dialect": "mlir", "operator": "arith"},), "operator.to", "is required"),
        (({"dialect": "onnx", "to": 3},), "operator", "must be a data type's name, got 3"),
        (({"dialect": "onnx", "operator": "flor"},), "operator.operator", "did you mean Floor?"),
        (({"dialect": "onnx", "operator": 7},), "operator.operator", "got 7; accepted: Round, "),
        (({"dialect": "webnn", "operator": ""},), "operator.operator", "accepted: roundEven, "),
        (
            ({"dialect": "mlir", "operator": "math.floor", "op": "math.ceil"},),
            "operator.op",
            "must be math.floor, as operator says",
        ),
        (
            ({"dialect": "stablehlo", "operator": "reduce_precision", "exponent_bits": 5},),
            "operator.mantissa_bits",
            "is required",
        ),
    ],
)
def test_faults_name_the_member(given: tuple[Any, ...], loc: str, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why) as caught:
        read(*given)
    assert {".".join(map(str, fault.loc)) for fault in caught.value.faults} == {loc}


@pytest.mark.parametrize(
    ("operator", "members", "loc", "why"),
    [
        ("onnx:Cast:24", {"to": "FLOAT8E4M3FN"}, "to", "did you mean float8_e4m3fn?"),
        ("onnx:Cast:24", {"to": 17}, "to", "got 17; accepted: float16, bfloat16, "),
        ("onnx:Cast:24", {"to": ["int8"]}, "to", "got an array; accepted: float16"),
        ("onnx:Cast:18", {"to": "float8_e5m2"}, "operator", "FLOAT8E5M2 needs opset 19 or newer"),
        ("onnx:Cast", {"to": "int8", "saturate": 1}, "saturate", "must be true or false, got 1"),
        ("onnx:Cast:18", {"to": "int8", "saturate": True}, "saturate", "saturate needs opset 19"),
        ("webnn", {"to": "int8", "saturate": True}, "saturate", "unknown attribute; accepted: to"),
        ("onnx:Floor", {"to": "int8"}, "operator", "it does not cast to a type"),
        ("webnn", {"to": "bfloat16"}, "operator", "webnn: cast takes float32, float16, "),
        ({"dialect": "onnx", "operator": "Floor"}, {"to": "int8"}, "operator.to", "unknown attr"),
        ("onnx", {"saturate": True}, "saturate", "unknown attribute; accepted: opset_version"),
        (
            {"dialect": "onnx", "operator": "QuantizeLinear", "precision": [1]},
            {"scale": {"shape": []}},
            "operator",
            "must be a data type's name, got an array",
        ),
        (
            "stablehlo:uniform_quantize:!quant.uniform<i8:f32, 1>",
            {"scale": {"shape": []}},
            "scale",
            "it is in quantized_type",
        ),
        ("mlir:arith.fptoui", {"to": "int8"}, "operator", "takes arith.fptosi, got arith.fptoui"),
    ],
)
def test_faults_of_a_cast_name_the_member(
    operator: Any, members: dict[str, Any], loc: str, why: str
) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why) as caught:
        read(operator, **members)
    assert {".".join(map(str, fault.loc)) for fault in caught.value.faults} == {loc}


PARAMETERS: dict[str, Any] = {
    "scale": {"dtype": "float32", "shape": [3]},
    "zero_point": {"dtype": "int8", "shape": [3]},
}


def test_a_quantization_has_its_tensors_types_and_attributes() -> None:
    beside = {"to": "int8", "axis": -1, "block_size": 0}
    found = read("onnx:QuantizeLinear:25", "float32", [2, 3], **PARAMETERS, **beside)
    made = tr.OnnxQuantizeLinear("int8", axis=-1)
    assert found == made.descriptor("float32", [2, 3], ("float32", [3]), ("int8", [3]))
    back = read(
        {"dialect": "onnx", "operator": "DequantizeLinear", "opset_version": 23},
        "int8",
        [2, 3],
        to="float16",
        **PARAMETERS,
    )
    other = tr.OnnxDequantizeLinear("float16", 23)
    assert back == other.descriptor("int8", [2, 3], ("float32", [3]), ("int8", [3]))
    bare = {"scale": PARAMETERS["scale"], "zero_point": None}
    assert (
        read("onnx:QuantizeLinear", "float32", [2, 3], **bare).resolve().output.dtype.name
        == "uint8"
    )


@pytest.mark.parametrize(
    ("operator", "members", "loc", "why"),
    [
        ("onnx:QuantizeLinear", {"scale": ...}, "scale", "is required"),
        ("onnx:Cast", {}, "scale", "onnx: Cast takes no scale"),
        ("onnx", {}, "operator", "one of onnx:QuantizeLinear, "),
        ("webnn:floor", {}, "scale", "webnn: floor takes no scale"),
        ("onnx:QuantizeLinear:9", {}, "operator", "is the oldest version"),
        ("onnx:QuantizeLinear", {"axis": True}, "axis", "must be an integer, got true"),
        ("onnx:QuantizeLinear", {"axis": 2}, "axis", "must be from -2 to 1"),
        ("onnx:QuantizeLinear", {"block_size": -1}, "block_size", "must be at least 0"),
        ("onnx:QuantizeLinear", {"to": "uint8"}, "zero_point.dtype", "must be output_dtype"),
        ("onnx:QuantizeLinear", {"dtype": "float64"}, "dtype", "onnx: quantization takes"),
        ("onnx:QuantizeLinear", {"shape": [0, 1, -1]}, "shape", "must be at least 0"),
        ("onnx:QuantizeLinear", {"scale": 0.5}, "scale", "must be an object with dtype and shape"),
        ("onnx:QuantizeLinear", {"scale": {"dtype": "float32"}}, "scale.shape", "is required"),
        (
            "onnx:QuantizeLinear",
            {"scale": {"dtype": "float32", "shape": [2]}},
            "scale.shape",
            "must be [3] for each index of axis 1, got [2]",
        ),
        (
            "onnx:QuantizeLinear",
            {"scale": {"dtype": "float64", "shape": [3]}},
            "scale.dtype",
            "onnx: quantization takes",
        ),
        (
            "onnx:QuantizeLinear",
            {"zero_point": {"dtype": "int8", "shape": [2]}},
            "zero_point.shape",
            "must have the shape of y_scale",
        ),
    ],
)
def test_faults_of_a_quantization_name_the_member(
    operator: Any, members: dict[str, Any], loc: str, why: str
) -> None:
    document = {"operator": operator, "dtype": "float32", "shape": [2, 3], **PARAMETERS, **members}
    given = {name: value for name, value in document.items() if value is not ...}
    with pytest.raises(tr.InvalidDescriptor) as caught:
        registry.validate(given)
    assert {".".join(map(str, fault.loc)) for fault in caught.value.faults} == {loc}
    assert why in caught.value.faults[0].msg


def test_the_members_are_these_three_and_those_of_a_cast() -> None:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        registry.validate({"operator": "onnx", "dialect": "onnx", "dtype": "float32"})
    assert [(fault.loc, fault.msg) for fault in caught.value.faults] == [
        (("dialect",), f"unknown field; accepted: {', '.join(registry.SHORT_MEMBERS)}"),
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
