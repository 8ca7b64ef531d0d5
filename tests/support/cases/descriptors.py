"""One lawful descriptor a dialect, ways to vary them, and what became of them."""

from __future__ import annotations

import copy
import json
from typing import Any

from tensor_round.call import RoundCall
from tensor_round.errors import InvalidDescriptor
from tensor_round.operators import resolve_json

Document = dict[str, Any]

#: The examples of the published contract, word for word.
EXAMPLES: dict[str, Document] = {
    "ieee754": {
        "dialect": "ieee754",
        "rounding": "ties_to_even",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": None, "byte_length": None},
        "output": None,
    },
    "onnx": {
        "dialect": "onnx",
        "op_type": "Round",
        "opset_version": 22,
        "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
    },
    "openvino": {
        "dialect": "openvino",
        "type": "Round",
        "version": "opset5",
        "data": {"mode": "half_to_even"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    },
    "directml": {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "RoundingMode": "HALVES_TO_NEAREST_EVEN",
        },
    },
    "webnn": {
        "dialect": "webnn",
        "op": "roundEven",
        "input": {"dataType": "float16", "shape": [2, 3]},
    },
    "stablehlo": {
        "dialect": "stablehlo",
        "op": "round_nearest_afz",
        "operand": "tensor<2x3xf16>",
    },
    "array_api": {
        "dialect": "array_api",
        "op": "round",
        "x": {"dtype": "float32", "shape": [2, 3]},
    },
}

#: As a value for :func:`varied`: the field is taken out.
ABSENT = object()


def varied(dialect: str, changes: dict[str, Any]) -> Document:
    """The dialect's example with fields set, at dotted paths; ``ABSENT`` removes one."""
    document = copy.deepcopy(EXAMPLES[dialect])
    for path, value in changes.items():
        *parents, field = path.split(".")
        place = document
        for parent in parents:
            place = place[parent]
        if value is ABSENT:
            del place[field]
        else:
            place[field] = value
    return document


def resolved(document: object) -> RoundCall:
    """The call that a document stands for, by the way of its JSON text."""
    return resolve_json(json.dumps(document).encode())


def faults(document: object) -> dict[str, str]:
    """Why a document is refused: messages by dotted path. Fails where it is accepted."""
    try:
        call = resolved(document)
    except InvalidDescriptor as refusal:
        return {".".join(map(str, fault.loc)): fault.msg for fault in refusal.faults}
    raise AssertionError(f"accepted: {call}")
