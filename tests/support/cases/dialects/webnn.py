"""``webnn``: roundEven, floor and ceil on two types, cast, and dimensions of at least 1."""

from __future__ import annotations

import math
from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    Example,
    Model,
    OperatorCases,
    conversion,
    datatypes,
    shapes,
)
from tensor_round.contract.rounding import Rounding

FLOATS = {"float32": "float32", "float16": "float16"}
SIZES: tuple[list[int], ...] = ([], [1], [2] * 6, [1] * 32, [2**31 - 1])
#: The example that the API has for roundEven.
X = (0.1, 0.9, 1.1, 1.9, -3.5, -2.5, -1.5, 1.5, 2.5, 3.5)


def unary(
    op: str, made: Any, model: str, rounding: Rounding, word: str, results: tuple[float, ...]
) -> OperatorCases:
    """roundEven, floor or ceil."""
    return OperatorCases(
        example={
            "dialect": "webnn",
            "op": op,
            "input": {"dataType": "float16", "shape": [2, 3]},
        },
        operator=(made(), "float16"),
        word=word,
        dtypes=FLOATS,
        rounding=rounding,
        dtype_at=("input.dataType",),
        accepted=shapes("input.shape", *SIZES),
        refusals=[
            ("input.dataType", "int32", 'got "int32"; webnn: rounding takes float32, float16'),
            ("input.shape[1]", [2, 0], "must be at least 1, got 0"),
            ("input.shape[0]", [2**31], "must be at most 2147483647, got 2147483648"),
            ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
            ("op", "round", "webnn: this dialect takes roundEven, floor, ceil, cast"),
            ("type", "int8", "unknown field"),
        ],
        refused=[(lambda: made().prepare("float32", (2, 0)), "input.shape.1", "at least 1")],
        words={word: made(), f"webnn:{op}": made()},
        wrong_words={
            f"webnn:{op}:1": "write webnn or webnn:floor or webnn:ceil",
            "webnn:round": "write webnn or webnn:floor or webnn:ceil",
        },
        spelling=word,
        model=Model(model, "input", "output", None, {"1": ("FP32,FP16", "0-32")}),
        examples={op: Example(X, results, ("float32", "float16"), shapes=((10,), (5, 2)))},
    )


TYPES = {
        name: name
        for name in (
            "float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8", "int4",
            "uint4",
        )
    }  # fmt: skip
#: Called as by someone whom no type checker stops.
ANY: Any = tr.WebNNCast

CAST = OperatorCases(
    example={
        "dialect": "webnn",
        "op": "cast",
        "type": "float16",
        "input": {"dataType": "float32", "shape": [2, 3]},
    },
    operator=(tr.WebNNCast("float16"), "float32"),
    word="webnn:cast",
    dtypes=TYPES,
    rounds_to_integral=False,
    accepted=[
        *[
            (
                {"type": target, "input.dataType": source},
                {
                    "input.dtype.name": source,
                    "output.dtype.name": target,
                    "function": conversion(source, target),
                },
            )
            for source in TYPES
            for target in TYPES
        ],
        *shapes("input.shape", *SIZES),
    ],
    refusals=[
        ("type", "float64", 'got "float64"; webnn: cast takes float32, float16, int32, uint32, '),
        ("type", 1, "got 1; webnn: cast takes"),
        ("input.dataType", "bool", 'got "bool"; webnn: cast takes float32'),
        ("input.shape[1]", [2, 0], "must be at least 1, got 0"),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
        ("options", {}, "unknown field"),
    ],
    refused=[
        (lambda: ANY("bfloat16"), "type", 'got "bfloat16"; webnn: cast takes'),
        (lambda: ANY("int8").prepare("float32", (0,)), "input.shape.0", "at least 1, got 0"),
    ],
    words=dict.fromkeys(("webnn", "webnn:cast"), tr.WebNNCast("float16")),
    wrong_words={
        "webnn:floor": 'got "webnn:floor": it does not cast to a type',
        "webnn:cast:1": "write webnn:cast",
    },
    spelling="webnn:cast",
    model=Model("webnn_cast", "input", "output", None, {"1": (datatypes(TYPES.values()), "0-32")}),
    # "Truncated", "nearest", "lowest N bits": its table by example.
    examples={
        "float to integer": Example((-1.75, 0.5, 2.5), (-1, 0, 2), ("float16",), to="int32"),
        "float to float": Example((2049, 65520), (2048, math.inf), ("float32",), to="float16"),
        "integer to float": Example((2**24 + 1,), (2**24,), ("int32", "uint64"), to="float32"),
        "integer to integer": Example((-1, 300), (255, 44), ("int32",), to="uint8"),
    },
)

CASES = {
    "webnn": unary(
        "roundEven",
        tr.WebNNRoundEven,
        "webnn_round_even",
        Rounding.TIES_TO_EVEN,
        "webnn",
        (0, 1, 1, 2, -4, -2, -2, 2, 2, 4),
    ),
    "webnn:floor": unary(
        "floor",
        tr.WebNNFloor,
        "webnn_floor",
        Rounding.TOWARD_NEGATIVE,
        "webnn:floor",
        (0, 0, 1, 1, -4, -3, -2, 1, 2, 3),
    ),
    "webnn:ceil": unary(
        "ceil",
        tr.WebNNCeil,
        "webnn_ceil",
        Rounding.TOWARD_POSITIVE,
        "webnn:ceil",
        (1, 1, 2, 2, -3, -2, -1, 2, 3, 4),
    ),
    "webnn:cast": CAST,
}
