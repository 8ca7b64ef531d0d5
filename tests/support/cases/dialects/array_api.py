"""``array_api``: four functions on the standard's real-valued types."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, DialectCases, Example, Model
from tensor_round.contract.rounding import Rounding

DTYPES = (
    *("float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
OPS = {
    "round": Rounding.TIES_TO_EVEN,
    "trunc": Rounding.TOWARD_ZERO,
    "ceil": Rounding.TOWARD_POSITIVE,
    "floor": Rounding.TOWARD_NEGATIVE,
}
DATATYPES = "FP32,FP64,INT8,INT16,INT32,INT64,UINT8,UINT16,UINT32,UINT64"
MODEL = Model("array_api_round", "x", "out", "op", {"2021.12": (DATATYPES, "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.ArrayAPIRound
#: Its rules by example: "the even integer closest", "closest to zero", "not less", "not greater".
RESULTS: dict[Any, tuple[float, ...]] = {
    "round": (-4, -2, -2, 0, 0, 0, 1, 2, 2, 7),
    "trunc": (-3, -2, -1, 0, 0, 0, 0, 1, 2, 7),
    "ceil": (-3, -2, -1, 0, 1, 1, 1, 2, 3, 7),
    "floor": (-4, -3, -2, 0, 0, 0, 0, 1, 2, 7),
}

CASES = DialectCases(
    example={"dialect": "array_api", "op": "round", "x": {"dtype": "float32", "shape": [2, 3]}},
    made=tr.ArrayAPIDescriptor(op="round", x=tr.ArrayAPIArray(dtype="float32", shape=[2, 3])),
    operator=(tr.ArrayAPIRound("round"), "float32"),
    dtypes={name: name for name in DTYPES},
    modes=OPS,
    accepted={
        **{
            f"{op} of {dtype}": (
                {"op": op, "x.dtype": dtype},
                {"input.dtype.name": dtype, "rounding": rounding},
            )
            for dtype in DTYPES
            for op, rounding in OPS.items()
        },
        **{
            f"the shape {shape}": ({"x.shape": shape}, {"output.shape": tuple(shape)})
            for shape in ([], [0], [3, 0], [2] * 9, [1] * 32)
        },
    },
    refusals={
        "complex numbers": (
            {"x.dtype": "complex128"},
            {"x.dtype": "got complex128: its parts are rounded one by one"},
        ),
        "a type that the standard has not": (
            {"x.dtype": "float16"},
            {"x.dtype": "array_api takes float32, float64, int8, "},
        ),
        "bool, which is not numeric": ({"x.dtype": "bool"}, {"x.dtype": "takes float32"}),
        "no type": ({"x.dtype": ABSENT}, {"x.dtype": "is required"}),
        "NumPy's name": (
            {"op": "rint"},
            {"op": 'array_api takes round, trunc, ceil, floor, got "rint'},
        ),
        "no function": ({"op": ABSENT}, {"op": "is required"}),
        "decimals": ({"decimals": 0}, {"decimals": "unknown field"}),
        "a negative size": ({"x.shape": [-1]}, {"x.shape.0": "must be at least 0, got -1"}),
        "33 dimensions": ({"x.shape": [1] * 33}, {"x.shape": "at most 32 dimensions, got 33"}),
    },
    refused={
        "op": (lambda: ANY("rint"), ("op",), "round, trunc, ceil, floor"),
    },
    words={"array_api:trunc": tr.ArrayAPIRound("trunc")},
    wrong_words={"array_api:rint": 'takes round, trunc, ceil, floor, got "rint"'},
    spelling="array_api:OP (round, trunc, ceil, floor)",
    fields=("dialect", "op", "x", "x.dtype", "x.shape"),
    model=MODEL,
    examples={
        op: Example(
            tr.ArrayAPIRound(op),
            (-3.5, -2.25, -1.5, 0, 0.25, 0.5, 0.75, 1.5, 2.5, 7),
            result,
            ("float32", "float64"),
            MODEL,
            "2021.12",
            op,
        )
        for op, result in RESULTS.items()
    },
)
