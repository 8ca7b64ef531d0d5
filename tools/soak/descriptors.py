"""Descriptors of a case in each dialect that has words for it."""

from __future__ import annotations

import json
import random
from typing import Any

from support.http.native_form import ieee754
from tensor_round.operators import DIALECTS
from tensor_round.rounding import ROUNDING_NAMES, RoundingName

from .cases import Case

#: Element types that a dialect takes, by their canonical names.
_ONNX = {"float16": 21, "float32": 21, "float64": 21, "bfloat16": 22}
_HALF_AND_SINGLE = ("float16", "float32")


def descriptor(case: Case, shape: list[int], chance: random.Random) -> tuple[str, int]:
    """A descriptor as a header's value, and the zeros that follow the result's last element."""
    (words,) = (row for row in ROUNDING_NAMES if row.rounding == case.rounding)
    dialects = {"ieee754": ieee754(case.dtype.name, shape, case.rounding)}
    for name, document in _others(case, shape, words).items():
        dialects[name] = json.dumps({"dialect": name, **document})
    name = chance.choice(list(dialects))
    # DirectML sizes its tensors in units of four bytes.
    padding = -case.expected.nbytes % 4 if name == "directml" else 0
    return dialects[name], padding


def _others(case: Case, shape: list[int], words: RoundingName) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if words.onnx and case.dtype.name in _ONNX:
        found["onnx"] = {
            "op_type": "Round",
            "opset_version": _ONNX[case.dtype.name],
            "input": {"elem_type": case.dtype.onnx, "shape": shape},
        }
    if words.openvino:
        found["openvino"] = {
            "type": "Round",
            "version": "opset5",
            "data": {"mode": words.openvino},
            "input": {"element_type": case.dtype.openvino, "shape": shape},
        }
    if words.directml and case.dtype.name in _HALF_AND_SINGLE and case.x.size:
        desc = {"DataType": case.dtype.directml, "Sizes": shape}
        found["directml"] = {
            "feature_level": "3_0",
            "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
            "desc": {
                "InputTensor": desc,
                "OutputTensor": desc,
                "RoundingMode": words.directml,
            },
        }
    if words.onnx and case.dtype.name in _HALF_AND_SINGLE and case.x.size:
        tensor = {"dataType": case.dtype.name, "shape": shape}
        found["webnn"] = {"op": "roundEven", "input": tensor}
    if words.stablehlo and case.dtype.stablehlo:
        sizes = "".join(f"{size}x" for size in shape)
        operand = f"tensor<{sizes}{case.dtype.stablehlo}>"
        found["stablehlo"] = {"op": words.stablehlo, "operand": operand}
    if words.array_api and case.dtype.name in DIALECTS["array_api"].dtypes:
        found["array_api"] = {
            "op": words.array_api,
            "x": {"dtype": case.dtype.name, "shape": shape},
        }
    return found
