"""``ieee754``: every dtype, direction and layout, and every refusal; convertFormat."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, Model, OperatorCases, datatypes
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Convert
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

#: Names, and bytes of an element.
DTYPES: dict[str, float] = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float4_e2m1fn": 0.5, "int4": 0.5, "uint4": 0.5,
}  # fmt: skip
F32 = {"dtype": "float32", "shape": [2, 3]}
#: Called as by someone whom no type checker stops.
ANY: Any = tr.IEEE754Round
# Fields of the input over those of the example, and the length that they come to.
LAYOUTS: list[tuple[dict[str, Any], int]] = [
    *[({"dtype": name}, int(6 * itemsize)) for name, itemsize in DTYPES.items()],
    ({"dtype": "int4", "shape": [3, 3]}, 5),
    ({"dtype": "uint4", "strides": [3, 1], "byte_length": 4}, 4),
    ({"shape": []}, 4),
    ({"shape": [1] * 32}, 4),
    ({"shape": [2, 0, 3]}, 0),
    ({"shape": [0], "byte_length": 8}, 8),
    ({"strides": [1, 2]}, 24),
    ({"strides": [5, 1]}, 32),
    ({"strides": [0, 1]}, 12),
    ({"byte_length": 25}, 25),
    ({"strides": ABSENT, "byte_length": ABSENT}, 24),
    ({"shape": [2**32, 2**32]}, 2**66),
]


def packed(call: Call) -> Layout:
    """The input's tensor in packed C order."""
    return Layout.of(call.input.dtype, call.input.shape)


ROUND = OperatorCases(
    example={
        "dialect": "ieee754",
        "rounding": "ties_to_even",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": None, "byte_length": None},
        "output": None,
    },
    operator=(tr.IEEE754Round("ties_to_even"), "float32"),
    dtypes={name: name for name in DTYPES},
    modes={rounding.value: rounding for rounding in Rounding},
    dtype_at=("input.dtype",),
    mode_at="rounding",
    defaulted={"rounding", "input.strides", "input.byte_length", "output"},
    accepted=[
        # Dimensions that interlock without overlap.
        (
            {"output": {**F32, "strides": [3, 2]}},
            {"output.strides": (3, 2), "output.byte_length": 32},
        ),
        (
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
        ({"rounding": ABSENT}, {"rounding": Rounding.TIES_TO_EVEN}),
        *[
            (
                {f"input.{field}": value for field, value in fields.items()},
                {"input.byte_length": length, "shortest_input": length, "output": packed},
            )
            for fields, length in LAYOUTS
        ],
        (
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
        # A stride that steps nowhere.
        (
            {"input.shape": [1, 3], "output": {**F32, "shape": [1, 3], "strides": [0, 1]}},
            {"is_in_place": True},
        ),
    ],
    refusals=[
        ("rounding", "half_to_even", "takes ties_to_even, ties_to_away, toward_zero, toward_pos"),
        ("rounding", 0, "got 0"),
        ("rounding", None, "got null"),
        ("input.dtype", "f32", "takes float16, bfloat16, float32, "),
        ("input.dtype", "float8_e8m0fnu", "got float8_e8m0fnu: it is not closed under rounding"),
        ("input", None, "must be an object, got null"),
        ("input.shape", None, "must be an array, got null"),
        ("input.shape[1]", [2, -1], "must be at least 0, got -1"),
        ("input.shape[0]", [True], "must be an integer, got true"),
        ("input.shape[0]", [2**63], "must be less than"),
        ("input.shape[0]", [2**999], "got an integer of 1000 bits"),
        ("input.shape", [1] * 33, "must have at most 32 dimensions, got 33"),
        ("input.strides", [1], "must have one entry per dimension, 2, got 1"),
        ("input.strides[1]", [3, -1], "must be at least 0, got -1"),
        ("input.byte_length", 23, "must be at least 24, the end of the last element, got 23"),
        ("input.byte_length", "24", "an integer"),
        ("output[dtype]", {**F32, "dtype": "float16"}, "ieee754: must equal the input's dtype"),
        ("output[shape]", {**F32, "shape": [3, 2]}, "ieee754: must equal the input's shape"),
        ("output[shape]", {"dtype": "float32"}, "is required"),
        ("output[strides]", {**F32, "strides": [0, 1]}, "must not overlap"),
        ("output[strides]", {**F32, "strides": [2, 1]}, "each stride exceeds the sum of (size-1)"),
        ("output[byte_length]", {**F32, "byte_length": 20}, "must be at least 24"),
        ("operation", "convert", "; ieee754: this dialect takes roundToIntegral, convertFormat"),
        ("operation", None, "must be 'roundToIntegral', got null"),
        ("saturate", True, "unknown field"),
    ],
    broken=[
        *[
            ({"input.dtype": "int4", **changes}, {path: rule})
            for changes, path, rule in (
                ({"input.strides": [1, 2]}, "input.strides", "of packed C order for int4, of whic"),
                ({"input.strides": [0, 1]}, "input.strides", "packed C order"),
                ({"input.byte_length": 2}, "input.byte_length", "must be at least 3, the end of"),
                (
                    {"output": {**F32, "dtype": "int4", "strides": [4, 1]}},
                    "output.strides",
                    "packed C order for int4, of which a byte has two: [3, 1]",
                ),
            )
        ],
        (
            {"input.strides": [5, 1], "input.byte_length": 31},
            {"input.byte_length": "must be at least 32"},
        ),
        (
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
        (
            {"input.byte_length": 1, "output": {"dtype": "int8", "shape": [3], "strides": [1, 1]}},
            {
                "input.byte_length": "at least 24",
                "output.dtype": "must equal",
                "output.shape": "must equal",
                "output.strides": "one entry per dimension, 1, got 2",
            },
        ),
    ],
    refused=[
        (lambda: ANY("up"), "rounding", 'got "up"'),
        (lambda: ANY(1), "rounding", "got 1"),
        (lambda: ANY(["x"]), "rounding", "array"),
        (lambda: ANY().prepare("complex64", (2,)), "input.dtype", 'complex numbers ."complex64"'),
        (lambda: ANY().prepare("int8", (1,) * 33), "input.shape", "32"),
    ],
    words={rounding.value: tr.IEEE754Round(rounding) for rounding in Rounding},
    wrong_words={"ieee754": "; accepted: ties", "ties_to_even:2": "did you mean ties_to_even?"},
    spelling="ties_to_even, ties_to_away, toward_zero, toward_positive, toward_negative",
    model=Model("round", "X", "Y", "rounding", {"1": (datatypes(DTYPES), "0-32")}),
)

#: Those that convertFormat takes.
CONVERTED = {name: DTYPES.get(name, 1) for name in BY_NAME}
E5M2 = {"dtype": "float8_e5m2"}
ANY_CONVERT: Any = tr.IEEE754Convert

CONVERT = OperatorCases(
    example={
        "dialect": "ieee754",
        "operation": "convertFormat",
        "rounding": "toward_zero",
        "saturate": False,
        "input": {"dtype": "float32", "shape": [2, 3]},
        "output": {"dtype": "float8_e5m2"},
    },
    operator=(tr.IEEE754Convert("float8_e5m2", "toward_zero", saturate=False), "float32"),
    dtypes={name: name for name in CONVERTED},
    modes={rounding.value: rounding for rounding in Rounding},
    rounds_to_integral=False,
    mode_at="rounding",
    defaulted={"rounding", "saturate"},
    accepted=[
        *[
            (
                [{"input.dtype": source, "output.dtype": target} for source in CONVERTED],
                {
                    "output.dtype.name": target,
                    "output.byte_length": int(6 * itemsize),
                    "function": Convert(Rounding.TOWARD_ZERO),
                },
            )
            for target, itemsize in CONVERTED.items()
        ],
        *[
            (
                {"rounding": rounding.value, "saturate": saturates},
                {"function": Convert(rounding, saturates)},
            )
            for rounding in Rounding
            for saturates in (False, True)
        ],
        ({"rounding": ABSENT}, {"function": Convert(Rounding.TIES_TO_EVEN)}),
        # In place where the result is not wider.
        *[
            ({"output.dtype": target}, {"is_in_place": is_in_place})
            for target, is_in_place in (("int8", True), ("uint32", True), ("float64", False))
        ],
        (
            {"output": {**E5M2, "shape": [2, 3], "strides": [1, 4], "byte_length": 11}},
            {
                "output.shape": (2, 3),
                "output.strides": (1, 4),
                "output.byte_length": 11,
                "input.byte_length": 24,
                "shortest_input": 24,
                "is_in_place": False,
            },
        ),
        (
            {"input.strides": [0, 1], "output": {**E5M2, "strides": [3, 2]}},
            {"input.byte_length": 12, "output.strides": (3, 2), "output.byte_length": 8},
        ),
        *[
            ({"input.shape": shape}, {"output.shape": tuple(shape)})
            for shape in ([], [0], [1] * 32)
        ],
    ],
    refusals=[
        ("rounding", "up", 'got "up"; did you mean toward_positive? ieee754: convertFormat takes'),
        ("rounding", None, "got null"),
        ("saturate", 1, "must be true or false, got 1"),
        ("saturate", None, "must be true or false, got null"),
        ("input.dtype", "bool", 'got "bool"; ieee754: convertFormat takes float16, bfloat16, '),
        ("input.byte_length", 23, "must be at least 24, the end of the last element, got 23"),
        ("output", None, "must be an object, got null"),
        ("output[dtype]", {}, "is required"),
        ("output[dtype]", {"dtype": "f16"}, 'got "f16"; '),
        ("output[dtype]", {"dtype": 2}, "got 2; ieee754: convertFormat takes float16"),
        ("output[shape]", {**E5M2, "shape": [3, 2]}, "ieee754: must equal the input's shape"),
        ("output[shape]", {**E5M2, "shape": [6]}, "ieee754: must equal the input's shape"),
        ("output[strides]", {**E5M2, "strides": [3]}, "one entry per dimension, 2, got 1"),
        ("output[strides]", {**E5M2, "strides": [0, 1]}, "ieee754: elements of the output must"),
        ("output[byte_length]", {**E5M2, "byte_length": 5}, "must be at least 6, the end of the"),
        ("output[axis]", {**E5M2, "axis": 1}, "unknown field"),
    ],
    refused=[
        (lambda: ANY_CONVERT("bool"), "output.dtype", 'got "bool"'),
        (lambda: ANY_CONVERT("int8", "up"), "rounding", 'got "up"'),
        (lambda: ANY_CONVERT("int8", saturate=1), "saturate", "must be true or false, got 1"),
        (lambda: ANY_CONVERT("int8").prepare("str", (2,)), "input.dtype", 'got .*"str"'),
    ],
    words={rounding.value: tr.IEEE754Convert("float8_e5m2", rounding) for rounding in Rounding},
    wrong_words={"ieee754": "; accepted: ties", "toward_zero:1": "did you mean toward_zero?"},
    spelling=ROUND.spelling,
    optional=("input.strides", "input.byte_length", "output.shape", "output.strides"),
    model=Model("cast", "X", "Y", "rounding", {"1": (datatypes(CONVERTED), "0-32")}),
)

CASES = {"ieee754": ROUND, "ieee754:convertFormat": CONVERT}
