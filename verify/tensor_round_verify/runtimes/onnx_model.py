"""ONNX models of one node, from onnx's textual form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import parser

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast, Dequantization, Quantization
from .model_tensors import Tensor

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


def is_float8(dtype: str) -> bool:
    """Whether casts to the type have the attribute ``saturate``."""
    return dtype.startswith("float8")


def cast_model(how: Cast, rank: int = 1, round_mode: str = "") -> bytes:
    """``y = Cast-25(x)``."""
    options = [f"to = {_number(how.target)}"]
    options += [f"saturate = {int(how.saturate)}"] if is_float8(how.target) else []
    options += [f'round_mode = "{round_mode}"'] if round_mode else []
    node = f"Cast <{', '.join(options)}> (x)"
    return _model(12, 25, node, {"x": _type(how.source, rank)}, _type(how.target, rank))


def linear_model(
    how: Quantization | Dequantization, ranks: tuple[int, int], options: Mapping[str, int]
) -> bytes:
    """``y = QuantizeLinear-25(x, scale, zero_point)`` or DequantizeLinear.

    ``ranks`` are those of the operand and of its scales, ``options`` axis and block_size.
    """
    types = {"precision": how.precision}
    if isinstance(how, Dequantization) and how.scale:
        types["output_dtype"] = how.target
    options = {**options, **{name: _number(dtype) for name, dtype in types.items() if dtype}}
    operator = "QuantizeLinear" if isinstance(how, Quantization) else "DequantizeLinear"
    inputs = {
        "x": _type(how.source, ranks[0]),
        "scale": _type(how.scale_type, ranks[1]),
        "zero_point": _type(how.codes, ranks[1]),
    }
    if isinstance(how, Quantization) and not how.saturate:
        options = {**options, "saturate": 0}
    some = ", ".join(f"{name} = {value}" for name, value in options.items())
    node = f"{operator} {f'<{some}> ' if some else ''}({', '.join(inputs)})"
    return _model(12, 25, node, inputs, _type(how.target, ranks[0]))


def with_constants(model: bytes, constants: Mapping[str, Tensor], shape: tuple[int, ...]) -> bytes:
    """The model with constants in place of some of its inputs; the others have this shape."""
    proto = onnx.load_model_from_string(model)
    for value in [value for value in proto.graph.input if value.name in constants]:
        proto.graph.input.remove(value)
    for value in proto.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            dimension.dim_value = size  # in place of its name
    for name, tensor in constants.items():
        proto.graph.initializer.append(constant(name, tensor))
    serialized: bytes = proto.SerializeToString()
    return serialized


def constant(name: str, tensor: Tensor) -> Any:  # onnx has no annotations
    """A TensorProto."""
    data = tensor.packed.tobytes()
    return onnx.helper.make_tensor(name, _number(tensor.dtype), tensor.shape, data, raw=True)


def _number(dtype: str) -> int:
    """The number of a type in ONNX."""
    number: int = onnx.helper.np_dtype_to_tensor_dtype(BY_NAME[dtype].numpy)
    return number


def _type(dtype: str, rank: int) -> str:
    """A tensor's type in onnx's text."""
    name = onnx.TensorProto.DataType.Name(_number(dtype)).lower()
    return f"{name}[{', '.join('nmklpqrs'[:rank])}]" if rank else name


def _model(ir_version: int, opset: int, node: str, inputs: dict[str, str], output: str) -> bytes:
    """A ModelProto of one node."""
    given = ", ".join(f"{kind} {name}" for name, kind in inputs.items())
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    model = parser.parse_model(f"{head} round ({given}) => ({output} y) {{ y = {node} }}")
    serialized: bytes = model.SerializeToString()
    return serialized
