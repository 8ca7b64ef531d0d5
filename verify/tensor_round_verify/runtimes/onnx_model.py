"""ONNX models of one node, from onnx's textual form."""

from __future__ import annotations

from onnx import parser

from tensor_round.contract.operators.dialects.onnx import DTYPES as ONNX_DTYPES
from tensor_round.contract.operators.dialects.onnx import NUMBERS
from tensor_round.contract.operators.operator import name_in

from ..reference import FLOATS

#: The operator of each direction. Round is ties_to_even only.
OPERATORS = {"ties_to_even": "Round", "toward_positive": "Ceil", "toward_negative": "Floor"}
#: The dtypes of Round, Ceil and Floor.
DTYPES = ("float16", "bfloat16", "float32", "float64")


def rounding_model(operator: str, dtype: str, rank: int = 1) -> bytes:
    """A ModelProto: ``y = Round(x)``, Ceil or Floor, of ``rank`` dimensions of any sizes."""
    # Round-22 is the first with bfloat16; Ceil and Floor have had it since 13. The IR version is
    # the newest that every supported ONNX Runtime reads.
    opset = 22 if dtype == "bfloat16" else 13
    return _model(10, opset, f"{operator} (x)", {"x": _type(dtype, rank)}, _type(dtype, rank))


def cast_model(source: str, target: str, *, saturate: bool) -> bytes:
    """``y = Cast-25(x)``; only casts to 8-bit types have the attribute ``saturate``."""
    more = f", saturate = {int(saturate)}" if FLOATS[target].width == 8 else ""
    node = f"Cast <to = {NUMBERS[target]}{more}> (x)"
    return _model(12, 25, node, {"x": _type(source, 1)}, _type(target, 1))


def quantize_model(source: str, target: str, *, per_axis: bool) -> bytes:
    """``y = QuantizeLinear-25(x, scale, zero_point)``, per tensor, or per the first of two axes."""
    rank, axis = int(per_axis), "<axis = 0> " if per_axis else ""
    inputs = {
        "x": _type(source, 1 + rank),
        "scale": _type(source, rank),
        "zero_point": _type(target, rank),
    }
    node = f"QuantizeLinear {axis}({', '.join(inputs)})"
    return _model(12, 25, node, inputs, _type(target, 1 + rank))


def _type(dtype: str, rank: int) -> str:
    """A tensor's type in onnx's text."""
    name = name_in(ONNX_DTYPES, dtype).lower()
    return f"{name}[{', '.join('nmkl'[:rank])}]" if rank else name


def _model(ir_version: int, opset: int, node: str, inputs: dict[str, str], output: str) -> bytes:
    """A ModelProto of one node."""
    given = ", ".join(f"{kind} {name}" for name, kind in inputs.items())
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    model = parser.parse_model(f"{head} round ({given}) => ({output} y) {{ y = {node} }}")
    serialized: bytes = model.SerializeToString()
    return serialized
