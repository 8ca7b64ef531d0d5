"""Descriptors of a tensor in each dialect that has names for it."""

from __future__ import annotations

import json
import random
from typing import Any

from support.cases.drawn_tensors import DrawnTensor
from support.http.native_form import ieee754
from tensor_round.operators import DIALECTS
from tensor_round.rounding import ROUNDING_NAMES, RoundingName

#: Element types that a dialect takes, by their canonical names.
_ONNX = {"float16": 21, "float32": 21, "float64": 21, "bfloat16": 22}
_HALF_AND_SINGLE = ("float16", "float32")


def descriptor(tensor: DrawnTensor, source: random.Random) -> tuple[str, int]:
    """A descriptor as a field's value, and the zeros that follow the result's last element."""
    shape = _shape(tensor.x.size, source)
    (names,) = (row for row in ROUNDING_NAMES if row.rounding == tensor.rounding)
    dialects = {"ieee754": ieee754(tensor.dtype.name, shape, tensor.rounding)}
    for name, document in _others(tensor, shape, names).items():
        dialects[name] = json.dumps({"dialect": name, **document})
    name = source.choice(list(dialects))
    # DirectML sizes its tensors in units of four bytes.
    padding = -tensor.expected.nbytes % 4 if name == "directml" else 0
    return dialects[name], padding


def _shape(size: int, source: random.Random) -> list[int]:
    shapes = [[size], [1, size], [size, 1]]
    shapes += [[size // n, n] for n in (2, 3, 8) if size % n == 0]
    return source.choice(shapes)


def _others(tensor: DrawnTensor, shape: list[int], names: RoundingName) -> dict[str, Any]:
    dtype = tensor.dtype
    found: dict[str, Any] = {}
    if names.onnx and dtype.name in _ONNX:
        found["onnx"] = {
            "op_type": "Round",
            "opset_version": _ONNX[dtype.name],
            "input": {"elem_type": dtype.onnx, "shape": shape},
        }
    if names.openvino:
        found["openvino"] = {
            "type": "Round",
            "version": "opset5",
            "data": {"mode": names.openvino},
            "input": {"element_type": dtype.openvino, "shape": shape},
        }
    if names.directml and dtype.name in _HALF_AND_SINGLE and tensor.x.size:
        found["directml"] = directml(dtype.directml, shape, names.directml)
    if names.onnx and dtype.name in _HALF_AND_SINGLE and tensor.x.size:
        found["webnn"] = {"op": "roundEven", "input": {"dataType": dtype.name, "shape": shape}}
    if names.stablehlo and dtype.stablehlo:
        sizes = "".join(f"{size}x" for size in shape)
        operand = f"tensor<{sizes}{dtype.stablehlo}>"
        found["stablehlo"] = {"op": names.stablehlo, "operand": operand}
    if names.array_api and dtype.name in DIALECTS["array_api"].dtypes:
        array = {"dtype": dtype.name, "shape": shape}
        found["array_api"] = {"op": names.array_api, "x": array}
    return found


def directml(dtype: Any, sizes: list[int], rounding: Any) -> dict[str, Any]:
    """An operator of DirectML, but for the dialect's name."""
    layout = {"DataType": dtype, "Sizes": sizes}
    desc = {"InputTensor": layout, "OutputTensor": layout, "RoundingMode": rounding}
    kind = "DML_OPERATOR_ELEMENT_WISE_ROUND"
    return {"feature_level": "3_0", "type": kind, "desc": desc}
