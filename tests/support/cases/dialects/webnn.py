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
from support.cases.dialects.webnn_linear import CASES as LINEAR
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

# Operands of web-platform-tests, webnn/conformance_tests/cast.https.any.js: by their type.
# fmt: off
HALF = (
    3.103515625, 32.40625, 62.15625, 51.75, 87.0625, 106.25, 125.375, 112.9375, 70.8125, 39.1875,
    10.3515625, 21.234375, 99.75, 16.125, 115.625, 66, 49.375, 115.75, 77, 57.15625, 61.6875,
    12.9296875, 101.25, 123.9375,
)
SINGLE = (
    102.1578369140625, 43.60371780395508, 52.84621810913086, 99.9583511352539, 6.729493141174316,
    92.66157531738281, 10.377813339233398, 106.65289306640625, 7.126272678375244, 91.51563262939453,
    50.87134552001953, 83.38890075683594, 72.9759750366211, 31.015382766723633, 79.94034576416016,
    41.844703674316406, 35.727149963378906, 2.614182949066162, 96.05252838134766, 86.76212310791016,
    27.49382972717285, 23.836687088012695, 70.77123260498047, 83.8347396850586,
)
SIGNED = (
    102.1578369140625, -43.5, 52.84621810913086, -99.9583511352539, 6.729493141174316,
    92.66157531738281, -10.377813339233398, 106.65289306640625, -7.126272678375244,
    91.51563262939453, -50.87134552001953, 83.38890075683594, 72.9759750366211, -31.015382766723633,
    79.94034576416016, 41.5, 35.727149963378906, -2.5, -96.05252838134766, -86.76212310791016,
    -27.49382972717285, -23.836687088012695, 70.77123260498047, 83.5,
)
#: With what is expected.
NARROWED = (
    102.1875, 43.59375, 52.84375, 99.9375, 6.73046875, 92.6875, 10.375, 106.625, 7.125, 91.5,
    50.875, 83.375, 73, 31.015625, 79.9375, 41.84375, 35.71875, 2.61328125, 96.0625, 86.75, 27.5,
    23.84375, 70.75, 83.8125,
)
CUT = (
    102, 43, 52, 99, 6, 92, 10, 106, 7, 91, 50, 83, 72, 31, 79, 41, 35, 2, 96, 86, 27, 23, 70, 83,
)
SIGNED_CUT = (
    102, -43, 52, -99, 6, 92, -10, 106, -7, 91, -50, 83, 72, -31, 79, 41, 35, -2, -96, -86, -27,
    -23, 70, 83,
)
HALF_CUT = (
    3, 32, 62, 51, 87, 106, 125, 112, 70, 39, 10, 21, 99, 16, 115, 66, 49, 115, 77, 57, 61, 12, 101,
    123,
)
INTEGERS = {
    "int32": (
        45, 55, 11, 21, 78, 104, 102, 66, 41, 110, 92, 69, 48, 23, 58, 12, 33, 24, 101, 87, 49, 118,
        1, 77,
    ),
    "uint32": (
        34, 83, 113, 31, 62, 80, 8, 40, 104, 42, 6, 91, 93, 21, 40, 21, 51, 110, 115, 12, 122, 68,
        57, 72,
    ),
    "int64": (
        50, 1, 28, 20, 102, 86, 70, 38, 50, 19, 11, 4, 56, 77, 40, 80, 45, 127, 4, 87, 125, 26, 63,
        11,
    ),
    "int8": (
        123, 17, 31, 77, 88, 44, 84, 40, 14, 64, 109, 4, 2, 0, 45, 47, 72, 88, 82, 4, 73, 36, 65,
        117,
    ),
    "uint8": (
        10, 112, 121, 120, 22, 105, 41, 30, 75, 121, 55, 47, 121, 24, 16, 33, 97, 24, 3, 37, 45, 6,
        56, 57,
    ),
}
# Of cast_rounding.https.any.js and cast-storage.https.any.js, from float32 and from float16.
ROUNDED = (
    (1.0003, -1.0003, 1.0007, -1.0007, 1.00048828125, -1.00048828125, 1.00146484375, -1.00146484375,
     2049, -2049, 2051, -2051, 2**-24, -(2**-24), 2**-25, -(2**-25), 3 * 2**-25, -3 * 2**-25,
     5 * 2**-25, -5 * 2**-25, 1023 * 2**-24, -1023 * 2**-24, 2047 * 2**-25, -2047 * 2**-25, 0.0,
     -0.0, 65504, -65504, 65519, -65519, 65520, -65520, 65536, -65536, math.inf, -math.inf,
     math.nan, 2**-26, -(2**-26)),
    (1, -1, 1.0009765625, -1.0009765625, 1, -1, 1.001953125, -1.001953125, 2048, -2048, 2052, -2052,
     2**-24, -(2**-24), 0, -0.0, 2**-23, -(2**-23), 2**-23, -(2**-23), 1023 * 2**-24,
     -1023 * 2**-24, 2**-14, -(2**-14), 0, -0.0, 65504, -65504, 65504, -65504, math.inf, -math.inf,
     math.inf, -math.inf, math.inf, -math.inf, math.nan, 0, -0.0),
)
WIDENED = (
    0, -0.0, 2**-24, -(2**-24), 1023 * 2**-24, -1023 * 2**-24, 2**-14, -(2**-14), 1, -1,
    1.0009765625, -1.0009765625, 65504, -65504, math.inf, -math.inf, math.nan, -math.nan,
)
# fmt: on
WPT = {
    f"WPT: {source} to {target}": Example(given, expected, (source,), to=target)
    for source, given, expected, targets in (
        ("float32", SIGNED, SIGNED_CUT, ("int32",)),
        ("float32", SINGLE, NARROWED, ("float16",)),
        ("float32", SINGLE, CUT, ("uint32", "int64", "int8", "uint8")),
        ("float16", HALF, HALF, ("float32",)),
        ("float16", HALF, HALF_CUT, ("int32", "uint32", "int64", "int8", "uint8")),
        *(
            (source, given, given, {"float32", "float16", *INTEGERS} - {source})
            for source, given in INTEGERS.items()
        ),
    )
    for target in sorted(targets)
    if (source, target) != ("int32", "uint32")  # it has no such case
}

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
        "WPT: rounding": Example(*ROUNDED, ("float32",), to="float16"),
        "WPT: widening": Example(WIDENED, WIDENED, ("float16",), to="float32"),
        **WPT,
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
    **LINEAR,
}
