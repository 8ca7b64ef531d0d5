"""``ieee754``: every dtype, direction and layout, and every refusal."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, DialectCases, Model
from tensor_round.contract.call import RoundCall
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

#: Names, and bytes of an element.
DTYPES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip
F32 = {"dtype": "float32", "shape": [2, 3]}
#: Called as by someone whom no type checker stops.
ANY: Any = tr.IEEE754Round
DATATYPES = (
    "FP16,BF16,FP32,FP64,UINT8:float8_e4m3fn,UINT8:float8_e5m2,"
    "INT8,INT16,INT32,INT64,UINT8,UINT16,UINT32,UINT64"
)
# input fields over those of the example, the length they come to
LAYOUTS: dict[str, tuple[dict[str, Any], int]] = {
    "a scalar": ({"shape": []}, 4),
    "32 dimensions": ({"shape": [1] * 32}, 4),
    "an empty tensor": ({"shape": [2, 0, 3]}, 0),
    "an empty tensor with padding": ({"shape": [0], "byte_length": 8}, 8),
    "an empty tensor, its strides of no account": ({"shape": [0, 2], "strides": [0, 0]}, 0),
    "columns first": ({"strides": [1, 2]}, 24),
    "rows apart": ({"strides": [5, 1]}, 32),
    "a broadcast row": ({"strides": [0, 1]}, 12),
    "one element for all": ({"strides": [0, 0]}, 4),
    "overlapping windows": ({"strides": [1, 1]}, 16),
    "trailing padding": ({"byte_length": 25}, 25),
    "fields absent": ({"strides": ABSENT, "byte_length": ABSENT}, 24),
}


def packed(call: RoundCall) -> Layout:
    """The input's tensor in packed C order."""
    return Layout.of(call.input.dtype, call.input.shape)


CASES = DialectCases(
    example={
        "dialect": "ieee754",
        "rounding": "ties_to_even",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": None, "byte_length": None},
        "output": None,
    },
    made=tr.IEEE754Descriptor(
        rounding="ties_to_even",
        input=tr.IEEE754Tensor(dtype="float32", shape=(2, 3), strides=None, byte_length=None),
        output=None,
    ),
    operator=(tr.IEEE754Round("ties_to_even"), "float32"),
    dtypes={name: name for name in DTYPES},
    modes={rounding.value: rounding for rounding in Rounding},
    accepted={
        "an output whose dimensions interlock without overlap": (
            {"output": {**F32, "strides": [3, 2]}},
            {"output.strides": (3, 2), "output.byte_length": 32},
        ),
        "the example, packed and in place": (
            {},
            {
                "rounding": Rounding.TIES_TO_EVEN,
                "input.dtype.name": "float32",
                "input.shape": (2, 3),
                "input.strides": (3, 1),
                "input.byte_length": 24,
                "output": lambda call: call.input,
                "shortest_input": 24,
                "is_in_place": True,
            },
        ),
        **{
            rounding.value: ({"rounding": rounding.value}, {"rounding": rounding})
            for rounding in Rounding
        },
        "no rounding": ({"rounding": ABSENT}, {"rounding": Rounding.TIES_TO_EVEN}),
        **{
            name: (
                {"input.dtype": name},
                {"input.dtype.name": name, "input.byte_length": 6 * itemsize},
            )
            for name, itemsize in DTYPES.items()
        },
        **{
            name: (
                {f"input.{field}": value for field, value in fields.items()},
                {"input.byte_length": length, "shortest_input": length, "output": packed},
            )
            for name, (fields, length) in LAYOUTS.items()
        },
        "sizes beyond any machine": (
            {"input.shape": [2**32, 2**32]},
            {"input.byte_length": 2**66},
        ),
        "an output with a layout of its own": (
            {"output": {**F32, "strides": [1, 4], "byte_length": 50}},
            {
                "output.dtype.name": "float32",
                "output.shape": (2, 3),
                "output.strides": (1, 4),
                "output.byte_length": 50,
                "input.strides": (3, 1),
                "is_in_place": False,
            },
        ),
        "a stride that steps nowhere, and changes nothing": (
            {
                "input.shape": [1, 3],
                "output": {"dtype": "float32", "shape": [1, 3], "strides": [0, 1]},
            },
            {"is_in_place": True},
        ),
    },
    refusals={
        "an unknown rounding": (
            {"rounding": "half_to_even"},
            {"rounding": "takes ties_to_even, ties_to_away, toward_zero, toward_positive, "},
        ),
        "a rounding of another type": ({"rounding": 0}, {"rounding": "got 0"}),
        "a null rounding": ({"rounding": None}, {"rounding": "got null"}),
        "an unknown dtype": (
            {"input.dtype": "f32"},
            {"input.dtype": "takes float16, bfloat16, float32, "},
        ),
        "upper case": ({"input.dtype": "FLOAT32"}, {"input.dtype": 'got "FLOAT32"'}),
        "no dtype": ({"input.dtype": ABSENT}, {"input.dtype": "is required"}),
        "no shape": ({"input.shape": ABSENT}, {"input.shape": "is required"}),
        "no input": ({"input": ABSENT}, {"input": "is required"}),
        "a null input": ({"input": None}, {"input": "must be an object, got null"}),
        "a null shape": ({"input.shape": None}, {"input.shape": "must be an array, got null"}),
        "a bare size": ({"input.shape": 6}, {"input.shape": "must be an array, got 6"}),
        "a negative size": (
            {"input.shape": [2, -1]},
            {"input.shape.1": "must be at least 0, got -1"},
        ),
        "a size as text": (
            {"input.shape": ["2"]},
            {"input.shape.0": 'must be an integer, got "2"'},
        ),
        "a size as float": (
            {"input.shape": [2.0]},
            {"input.shape.0": "must be an integer, got 2.0"},
        ),
        "a size as bool": (
            {"input.shape": [True]},
            {"input.shape.0": "must be an integer, got true"},
        ),
        "a size of 2^63": ({"input.shape": [2**63]}, {"input.shape.0": "must be less than"}),
        "a size of 1000 bits": (
            {"input.shape": [2**999]},
            {"input.shape.0": "got an integer of 1000 bits"},
        ),
        "33 dimensions": (
            {"input.shape": [1] * 33},
            {"input.shape": "must have at most 32 dimensions, got 33"},
        ),
        "a stride short": (
            {"input.strides": [1]},
            {"input.strides": "must have one entry per dimension, 2, got 1"},
        ),
        "a stride too many": (
            {"input.strides": [3, 1, 1]},
            {"input.strides": "must have one entry per dimension, 2, got 3"},
        ),
        "a negative stride": (
            {"input.strides": [3, -1]},
            {"input.strides.1": "must be at least 0, got -1"},
        ),
        "a length a byte short": (
            {"input.byte_length": 23},
            {"input.byte_length": "must be at least 24, the end of the last element, got 23"},
        ),
        "a length short of the strides": (
            {"input.strides": [5, 1], "input.byte_length": 31},
            {"input.byte_length": "must be at least 32"},
        ),
        "a length as text": ({"input.byte_length": "24"}, {"input.byte_length": "an integer"}),
        "an unknown field": ({"mode": 1}, {"mode": "unknown field"}),
        "an unknown field of a tensor": (
            {"input.byteLength": 24},
            {"input.byteLength": "unknown field"},
        ),
        "another dialect's field": ({"opset_version": 22}, {"opset_version": "unknown field"}),
        "an output of another dtype": (
            {"output": {**F32, "dtype": "float16"}},
            {"output.dtype": "ieee754: must equal the input's dtype"},
        ),
        "an output of another shape": (
            {"output": {**F32, "shape": [3, 2]}},
            {"output.shape": "ieee754: must equal the input's shape"},
        ),
        "an output without shape": (
            {"output": {"dtype": "float32"}},
            {"output.shape": "is required"},
        ),
        "a broadcast output": (
            {"output": {**F32, "strides": [0, 1]}},
            {"output.strides": "must not overlap"},
        ),
        "an output that overlaps": (
            {"output": {**F32, "strides": [2, 1]}},
            {"output.strides": "each stride exceeds the sum of (size-1)*stride"},
        ),
        "an output too short": (
            {"output": {**F32, "byte_length": 20}},
            {"output.byte_length": "must be at least 24"},
        ),
        "faults in many places": (
            {"rounding": "up", "input.shape": [-1, "x"], "output": {"dtype": "f4"}, "extra": {}},
            {
                "rounding": "takes",
                "input.shape.0": "at least 0",
                "input.shape.1": "an integer",
                "output.dtype": "takes",
                "output.shape": "is required",
                "extra": "unknown field",
            },
        ),
        "rules broken in many places": (
            {
                "input.byte_length": 1,
                "output": {"dtype": "int8", "shape": [3], "strides": [1, 1]},
            },
            {
                "input.byte_length": "at least 24",
                "output.dtype": "must equal",
                "output.shape": "must equal",
                "output.strides": "one entry per dimension, 1, got 2",
            },
        ),
    },
    refused={
        "rounding": (lambda: ANY("up"), ("rounding",), 'got "up"'),
        "rounding-type": (lambda: ANY(1), ("rounding",), "got 1"),
        "unhashable": (lambda: ANY(["x"]), ("rounding",), "array"),
        "complex": (
            lambda: tr.IEEE754Round().prepare("complex64", (2,)),
            ("input", "dtype"),
            'got complex numbers ."complex64"',
        ),
        "rank": (lambda: tr.IEEE754Round().prepare("int8", (1,) * 33), ("input", "shape"), "32"),
    },
    words={rounding.value: tr.IEEE754Round(rounding) for rounding in Rounding},
    wrong_words={"ieee754": "; accepted: ties", "ties_to_even:2": "did you mean ties_to_even?"},
    spelling="ties_to_even, ties_to_away, toward_zero, toward_positive, toward_negative",
    fields=(
        *("dialect", "rounding", "input", "input.dtype", "input.shape", "input.strides"),
        *("input.byte_length", "input.x", "output", "x"),
    ),
    model=Model("round", "X", "Y", "rounding", {"1": (DATATYPES, "0-32")}),
)
