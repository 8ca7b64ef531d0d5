"""ONNX models of one node, encoded without the onnx package, which onnxruntime does not need.

In the wire format of Protocol Buffers a field is a key (its number and wire type), and a varint or
a length with so many bytes. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from ...dtypes import BY_NAME

#: The operator of each direction. Round is ties_to_even only.
OPERATORS = {"ties_to_even": "Round", "toward_positive": "Ceil", "toward_negative": "Floor"}
#: The dtypes of Round, Ceil and Floor.
DTYPES = ("float16", "bfloat16", "float32", "float64")
#: The newest IR version that every supported ONNX Runtime reads.
IR_VERSION = 10


def model_of(dtype: str, rounding: str) -> bytes:
    """A ModelProto: ``y = Operator(x)``, both of one dimension of any size."""
    # Round-22 is the first with bfloat16; Ceil and Floor have had it since 13.
    opset = 22 if dtype == "bfloat16" else 13
    graph = (
        _message(1, _text(1, "x") + _text(2, "y") + _text(4, OPERATORS[rounding]))
        + _text(2, "round")
        + _message(11, _value("x", dtype))
        + _message(12, _value("y", dtype))
    )
    return _number(1, IR_VERSION) + _message(7, graph) + _message(8, _number(2, opset))


def _value(name: str, dtype: str) -> bytes:
    """A ValueInfoProto: a tensor of one dimension."""
    element = BY_NAME[dtype].onnx_number
    assert element is not None, "not a type of ONNX"
    shape = _message(1, _text(2, "n"))
    tensor = _number(1, element) + _message(2, shape)
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
