"""Descriptors of every layout, and what executing them must give."""

from __future__ import annotations

from typing import Any

from support.cases.array_cases import patterns
from support.cases.descriptors import EXAMPLES
from support.cases.dialect import Document
from tensor_round.contract.call import RoundCall
from tensor_round.contract.operators import registry

TENSOR: Document = {"DataType": "FLOAT32", "Sizes": [2, 3]}
#: Columns first and more bytes than elements; the output's rows lie apart.
STRIDED: Document = {
    "dialect": "directml",
    "feature_level": "3_0",
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "desc": {
        "InputTensor": {**TENSOR, "Strides": [1, 2], "TotalTensorSizeInBytes": 40},
        "OutputTensor": {**TENSOR, "Strides": [5, 1], "TotalTensorSizeInBytes": 36},
        "RoundingMode": "TOWARD_INFINITY",
    },
}


def ieee754(dtype: str, shape: list[int], **layouts: Any) -> Document:
    """An ``ieee754`` descriptor; ``strides``, ``byte_length`` are the input's, ``output`` whole."""
    output = layouts.pop("output", None)
    tensor = {"dtype": dtype, "shape": shape}
    document = {"dialect": "ieee754", "input": {**tensor, **layouts}}
    return document if output is None else {**document, "output": {**tensor, **output}}


def call_of(document: Document) -> RoundCall:
    return registry.validate(document).resolve()


def payload_of(call: RoundCall) -> bytes:
    """Bytes of the input's layout, full of hard patterns, gaps and padding too."""
    name, itemsize = call.input.dtype.name, call.input.dtype.itemsize
    whole = patterns(name, call.input.byte_length // itemsize + 1)
    return whole.tobytes()[: call.input.byte_length]


DOCUMENTS: dict[str, Document] = {
    **EXAMPLES,
    "directml-strided": STRIDED,
    "directml-odd-halves": {
        **STRIDED,
        "desc": {
            side: {"DataType": "FLOAT16", "Sizes": [3]} for side in ("InputTensor", "OutputTensor")
        },
    },
    "channels-last": ieee754("float16", [1, 3, 2, 2], output={"strides": [12, 1, 6, 3]}),
    "broadcast": ieee754("bfloat16", [4, 5], strides=[0, 1]),
    "windows": ieee754("float64", [3, 4], strides=[1, 1]),
    "padded": ieee754("float8_e5m2", [7], byte_length=31, output={"byte_length": 9}),
    "gaps": ieee754("int16", [3, 2], strides=[7, 3], output={"strides": [2, 9]}),
    "scalar": ieee754("float32", []),
    "empty": ieee754("float32", [3, 0, 2], byte_length=8),
}
