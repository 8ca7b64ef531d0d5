"""Descriptors made in Python: the same rules and words as for JSON."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round as tr
from tensor_round.contract.operators.registry import DIALECTS


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
            dialect="openvino",
            op_type="Round",
            opset_version=22,
            input=tr.OnnxTensor(elem_type="FLOAT16", shape=(2, 3)),
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


@pytest.mark.parametrize("dtype", [object(), [1]], ids=["object", "list"])
def test_invalid_dtype_is_an_invalid_argument(dtype: Any) -> None:
    with pytest.raises(tr.InvalidArgument, match="dtype must be"):
        tr.OnnxRound().descriptor(dtype, (2,))


@pytest.mark.parametrize("shape", [2, "23", [1.5]], ids=str)
def test_invalid_shape_is_an_invalid_argument(shape: Any) -> None:
    with pytest.raises(tr.InvalidArgument, match="shape must be"):
        tr.OnnxRound().descriptor("f4", shape)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_json_document_names_its_dialect(name: str) -> None:
    """Which a constructor need not."""
    schema = DIALECTS[name].descriptor.model_json_schema()
    assert schema["required"][0] == "dialect"
    assert schema["properties"]["dialect"] == {"const": name, "title": "dialect", "type": "string"}
