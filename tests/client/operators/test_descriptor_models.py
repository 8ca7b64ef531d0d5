"""Descriptors made in Python: the same rules and words as for JSON, and values for ever."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

import tensor_round as tr
from support.cases.descriptors import EXAMPLES
from tensor_round import operators

MADE: dict[str, operators.Descriptor] = {
    "ieee754": tr.IEEE754Descriptor(
        rounding="ties_to_even",
        input=tr.IEEE754Tensor(dtype="float32", shape=(2, 3), strides=None, byte_length=None),
        output=None,
    ),
    "onnx": tr.OnnxDescriptor(
        op_type="Round",
        opset_version=22,
        input=tr.OnnxTensor(elem_type="FLOAT16", shape=(2, 3)),
    ),
    "openvino": tr.OpenVINODescriptor(
        type="Round",
        version="opset5",
        data=tr.OpenVINOData(mode="half_to_even"),
        input=tr.OpenVINOTensor(element_type="f32", shape=[2, 3]),
    ),
    "directml": tr.DirectMLDescriptor(
        feature_level="3_0",
        type="DML_OPERATOR_ELEMENT_WISE_ROUND",
        desc=tr.ElementWiseRoundDesc(
            InputTensor=tr.BufferTensorDesc(DataType="FLOAT32", Sizes=[2, 3]),
            OutputTensor=tr.BufferTensorDesc(DataType="FLOAT32", Sizes=[2, 3]),
            RoundingMode="HALVES_TO_NEAREST_EVEN",
        ),
    ),
    "webnn": tr.WebNNDescriptor(
        op="roundEven", input=tr.WebNNTensor(dataType="float16", shape=(2, 3))
    ),
    "stablehlo": tr.StableHLODescriptor(op="round_nearest_afz", operand="tensor<2x3xf16>"),
    "array_api": tr.ArrayAPIDescriptor(
        op="round", x=tr.ArrayAPIArray(dtype="float32", shape=[2, 3])
    ),
}


@pytest.mark.parametrize("dialect", MADE)
def test_the_published_example_is_made_in_python(dialect: str) -> None:
    made, read = MADE[dialect], operators.validate(EXAMPLES[dialect])
    assert made == read
    assert made.resolve() == read.resolve()
    assert operators.parse(made.to_json()) == made
    sent = json.loads(made.to_json())
    assert next(iter(sent)) == "dialect"
    assert json.loads(read.to_json()).keys() == EXAMPLES[dialect].keys()


@pytest.mark.parametrize("dialect", MADE)
def test_a_descriptor_is_a_value(dialect: str) -> None:
    made = MADE[dialect]
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        assert hash(other) == hash(made)
        assert other.to_json() == made.to_json()
    assert made not in [other for name, other in MADE.items() if name != dialect]


def test_sizes_may_be_any_sequence_and_do_not_change() -> None:
    sizes = [2, 3]
    tensor = tr.BufferTensorDesc(DataType=1, Sizes=sizes, Strides=(3, 1))
    sizes.append(4)
    assert (tensor.Sizes, tensor.Strides, tensor.DataType) == ((2, 3), (3, 1), "FLOAT32")


def test_the_c_integers_of_every_enumeration() -> None:
    tensor = tr.BufferTensorDesc(DataType=1, Sizes=[4], Flags=0, Type=1)
    desc = tr.ElementWiseRoundDesc(InputTensor=tensor, OutputTensor=tensor, RoundingMode=2)
    made = tr.DirectMLDescriptor(feature_level=0x3000, type=99, desc=desc)
    assert made.resolve().rounding == "ties_to_away"
    default = tr.ElementWiseRoundDesc(InputTensor=tensor, OutputTensor=tensor)
    assert default.RoundingMode == "HALVES_TO_NEAREST_EVEN" == tr.DirectMLRound().rounding_mode


TENSOR = {"DataType": "FLOAT32", "Sizes": [2]}
#: Called as by someone whom no type checker stops.
LOOSE: dict[str, Any] = {name: getattr(tr, name) for name in tr.__all__}
REFUSED: dict[str, tuple[Any, tuple[str | int, ...], str]] = {
    "dtype": (
        lambda: LOOSE["IEEE754Tensor"](dtype="float", shape=()),
        ("dtype",),
        "ieee754: roundToIntegral takes float16",
    ),
    "size": (
        lambda: LOOSE["BufferTensorDesc"](DataType="FLOAT32", Sizes=[2, 0]),
        ("Sizes", 1),
        "must be at least 1, got 0",
    ),
    "a-set": (
        lambda: LOOSE["BufferTensorDesc"](DataType="FLOAT32", Sizes={2, 3}),
        ("Sizes",),
        "must be an array, got a Python set",
    ),
    "rank": (
        lambda: LOOSE["OnnxTensor"](elem_type="FLOAT", shape=[1] * 33),
        ("shape",),
        "must have at most 32 dimensions, got 33",
    ),
    "nested": (
        lambda: LOOSE["DirectMLDescriptor"](
            feature_level="3_0",
            type=99,
            desc={"InputTensor": {**TENSOR, "Strides": [-1]}, "OutputTensor": TENSOR},
        ),
        ("desc", "InputTensor", "Strides", 0),
        "must be at least 0, got -1",
    ),
    "missing": (lambda: LOOSE["OpenVINODescriptor"](type="Round"), ("input",), "is required"),
    "unknown": (lambda: LOOSE["OpenVINOData"](Mode="x"), ("Mode",), "unknown field"),
    "dialect": (
        lambda: LOOSE["OnnxDescriptor"](
            dialect="openvino", op_type="Round", opset_version=22, input=MADE["onnx"].input
        ),
        ("dialect",),
        "must be 'onnx', got \"openvino\"",
    ),
}


@pytest.mark.parametrize(("make", "loc", "why"), REFUSED.values(), ids=REFUSED)
def test_a_constructor_refuses_with_the_dialect_s_words(
    make: Any, loc: tuple[str | int, ...], why: str
) -> None:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        make()
    fault = caught.value.faults[0]
    assert fault.loc == loc
    assert why in fault.msg


def test_operators_make_the_models_of_their_dialects() -> None:
    assert tr.IEEE754Round().descriptor("float32", (2, 3)).input.shape == (2, 3)
    assert tr.OnnxRound().descriptor("<f2", (2, 3)) == MADE["onnx"]
    assert tr.OpenVINORound().descriptor("f4", (2, 3)) == MADE["openvino"]
    assert tr.DirectMLRound().descriptor("float32", [2, 3]) == MADE["directml"]
    assert tr.WebNNRoundEven().descriptor("float16", [2, 3]) == MADE["webnn"]
    away = tr.StableHLORound("stablehlo.round_nearest_afz")
    assert away.descriptor("float16", [2, 3]) == MADE["stablehlo"]
    assert tr.ArrayAPIRound().descriptor("float32", [2, 3]) == MADE["array_api"]
    anything: Any
    for anything in (object(), [1]):
        with pytest.raises(tr.InvalidArgument, match="dtype must be"):
            tr.OnnxRound().descriptor(anything, (2,))
    for anything in (2, "23", [1.5]):
        with pytest.raises(tr.InvalidArgument, match="shape must be"):
            tr.OnnxRound().descriptor("f4", anything)
