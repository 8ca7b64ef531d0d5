"""ONNX models of one node, encoded without the onnx package, which onnxruntime does not need.

In the wire format of Protocol Buffers a field is a key (its number and wire type), and a varint or
a length with so many bytes. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tensor_round.contract.operators.dialects.onnx import NUMBERS

from ..reference import FLOATS

#: The operator of each direction. Round is ties_to_even only.
OPERATORS = {"ties_to_even": "Round", "toward_positive": "Ceil", "toward_negative": "Floor"}
#: The dtypes of Round, Ceil and Floor.
DTYPES = ("float16", "bfloat16", "float32", "float64")
#: The newest IR version that every supported ONNX Runtime reads.
IR_VERSION = 10
#: The names of sizes.
SIZES = ("n", "m", "k", "l")
#: The operator set with Cast-25 and QuantizeLinear-25.
CONVERSIONS_OPSET = 25


def model_of(dtype: str, rounding: str, rank: int = 1) -> bytes:
    """A ModelProto: ``y = Operator(x)``, both of ``rank`` dimensions of any sizes."""
    # Round-22 is the first with bfloat16; Ceil and Floor have had it since 13.
    opset = 22 if dtype == "bfloat16" else 13
    return _model(OPERATORS[rounding], {"x": (dtype, rank)}, (dtype, rank), opset, IR_VERSION)


def cast_model(source: str, target: str, *, saturate: bool) -> bytes:
    """``y = Cast(x)``; only casts to 8-bit types have the attribute ``saturate``."""
    attributes = {"saturate": int(saturate)} if FLOATS[target].width == 8 else {}
    asked = {**attributes, "to": NUMBERS[target]}
    return _model("Cast", {"x": (source, 1)}, (target, 1), CONVERSIONS_OPSET, 12, asked)


def quantize_model(source: str, target: str, *, per_axis: bool) -> bytes:
    """``y = QuantizeLinear(x, scale, zero_point)``, per tensor, or per the first of two axes."""
    rank = int(per_axis)
    inputs = {"x": (source, 1 + rank), "scale": (source, rank), "zero_point": (target, rank)}
    attributes = {"axis": 0} if per_axis else {}
    opset = CONVERSIONS_OPSET
    return _model("QuantizeLinear", inputs, (target, 1 + rank), opset, 12, attributes)


def _model(
    operator: str,
    inputs: Mapping[str, tuple[str, int]],
    output: tuple[str, int],
    opset: int,
    ir_version: int,
    attributes: Mapping[str, int] = MappingProxyType({}),
) -> bytes:
    """A ModelProto of one node with integers for attributes; tensors have a type and a rank."""
    named = b"".join(_text(1, name) for name in inputs)
    asked = b"".join(_message(5, _attribute(*pair)) for pair in sorted(attributes.items()))
    graph = (
        _message(1, named + _text(2, "y") + _text(4, operator) + asked)
        + _text(2, "round")
        + b"".join(_message(11, _value(name, *of)) for name, of in inputs.items())
        + _message(12, _value("y", *output))
    )
    return _number(1, ir_version) + _message(7, graph) + _message(8, _number(2, opset))


def _attribute(name: str, value: int) -> bytes:
    """An AttributeProto of the kind INT."""
    return _text(1, name) + _number(3, value) + _number(20, 2)


def _value(name: str, dtype: str, rank: int) -> bytes:
    """A ValueInfoProto: a tensor of any sizes."""
    sizes = b"".join(_message(1, _text(2, size)) for size in SIZES[:rank])
    shape = _message(2, sizes)
    tensor = _number(1, NUMBERS[dtype]) + shape
    return _text(1, name) + _message(2, _message(1, tensor))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
