"""The operators' cases, ways to vary their examples, and descriptors of every layout."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from support.cases.array_cases import on_wire, patterns
from support.cases.dialect import ABSENT, Document, OperatorCases
from tensor_round.contract.call import Call
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.registry import DIALECTS
from tensor_round.contract.rounding import Rounding

#: What is expected of each operator, by its key in ``OPERATORS``; a dialect without a file fails.
CASES: dict[str, OperatorCases] = {
    key: cases
    for name in DIALECTS
    for key, cases in import_module(f"support.cases.dialects.{name}").CASES.items()
}
#: Those of operators of one tensor, which every way serves.
UNARY = {key: cases for key, cases in CASES.items() if not cases.kind.is_linear}
#: The operators to integral values of all dialects but ieee754, as one word, by their directions.
WORDS: dict[str, tuple[str, ...]] = {
    rounding.value: tuple(
        f"{cases.word}:{mode}" if mode else cases.word
        for cases in CASES.values()
        if cases.word and cases.rounds_to_integral
        for mode, direction in (cases.modes or {"": cases.rounding}).items()
        if direction is rounding
    )
    for rounding in Rounding
}
#: The examples of the published contract, word for word.
EXAMPLES: dict[str, Document] = {name: cases.example for name, cases in CASES.items()}


def paths(document: Document, *above: str) -> Iterator[str]:
    """The dotted path of each field."""
    for name, value in document.items():
        yield ".".join((*above, name))
        if isinstance(value, dict):
            yield from paths(value, *above, name)


def varied(operator: str, changes: dict[str, Any]) -> Document:
    """The operator's example with fields set, at dotted paths; ``ABSENT`` removes one."""
    document = copy.deepcopy(EXAMPLES[operator])
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


def resolved(document: object) -> Call:
    """The call that a document stands for, by the way of its JSON text."""
    return registry.parse(json.dumps(document).encode()).resolve()


def faults(document: object) -> dict[str, str]:
    """Why a document is refused: messages by dotted path. Fails where it is accepted."""
    try:
        call = resolved(document)
    except InvalidDescriptor as refusal:
        return {".".join(map(str, fault.loc)): fault.msg for fault in refusal.faults}
    raise AssertionError(f"accepted: {call}")


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


def cast(source: str, target: str, shape: list[int], **layouts: Any) -> Document:
    """A descriptor of convertFormat; the layouts are as for ``ieee754``."""
    output = {"dtype": target, **layouts.pop("output", {})}
    tensor = {"dtype": source, "shape": shape, **layouts}
    return {"dialect": "ieee754", "operation": "convertFormat", "input": tensor, "output": output}


def call_of(document: Document) -> Call:
    return registry.validate(document).resolve()


def payload_of(call: Call) -> bytes:
    """Bytes of the input's layout, full of hard patterns, gaps and padding too."""
    dtype, length = call.input.dtype, call.input.byte_length
    return on_wire(patterns(dtype.name, dtype.count(length) + 1))[:length]


DOCUMENTS: dict[str, Document] = {
    **{name: cases.example for name, cases in UNARY.items()},
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
    "an odd number of 4 bits": ieee754("float4_e2m1fn", [3, 5]),
    "4 bits and padding": ieee754("int4", [7], byte_length=9, output={"byte_length": 5}),
    "scalar": ieee754("float32", []),
    "cast as long": cast("float32", "float8_e5m2", [2, 3], output={"byte_length": 24}),
    "cast in columns": cast(
        "float32", "int16", [2, 3], strides=[5, 1], output={"strides": [1, 4], "byte_length": 20}
    ),
    "cast of windows": cast("float16", "float64", [3, 4], strides=[1, 1]),
    "cast to 4 bits": cast("bfloat16", "int4", [3, 5], output={"byte_length": 11}),
    "cast of 4 bits": cast("float4_e2m1fn", "float8_e8m0fnu", [3, 5], byte_length=9),
    "empty": ieee754("float32", [3, 0, 2], byte_length=8),
}
