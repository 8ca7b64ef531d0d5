"""``array_api``: four functions on the standard's real-valued types."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import INTEGERS, DialectCases, Model, by_mode, shapes
from tensor_round.contract.rounding import Rounding

DTYPES = (
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
OPS = {
    "round": Rounding.TIES_TO_EVEN,
    "trunc": Rounding.TOWARD_ZERO,
    "ceil": Rounding.TOWARD_POSITIVE,
    "floor": Rounding.TOWARD_NEGATIVE,
}
MODEL = Model("array_api_round", "x", "out", "op", {"2021.12": (f"FP32,FP64,{INTEGERS}", "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.ArrayAPIRound
#: Its rules by example: "the even integer closest", "closest to zero", "not less", "not greater".
X = (-3.5, -2.25, -1.5, 0, 0.25, 0.5, 0.75, 1.5, 2.5, 7)
RESULTS: dict[Any, tuple[float, ...]] = {
    "round": (-4, -2, -2, 0, 0, 0, 1, 2, 2, 7),
    "trunc": (-3, -2, -1, 0, 0, 0, 0, 1, 2, 7),
    "ceil": (-3, -2, -1, 0, 1, 1, 1, 2, 3, 7),
    "floor": (-4, -3, -2, 0, 0, 0, 0, 1, 2, 7),
}

CASES = DialectCases(
    example={"dialect": "array_api", "op": "round", "x": {"dtype": "float32", "shape": [2, 3]}},
    operator=(tr.ArrayAPIRound("round"), "float32"),
    dtypes={name: name for name in DTYPES},
    modes=OPS,
    dtype_at=("x.dtype",),
    mode_at="op",
    accepted=shapes("x.shape"),
    refusals=[
        ("x.dtype", "complex128", "got complex128; send its real and imaginary parts"),
        ("x.dtype", "float16", "array_api takes float32, float64, int8, "),
        ("op", "rint", 'got "rint"; array_api takes round, trunc, ceil, floor'),
        ("x.shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[(lambda: ANY("rint"), "op", "round, trunc, ceil, floor")],
    words={"array_api:trunc": tr.ArrayAPIRound("trunc")},
    wrong_words={"array_api:rint": 'got "rint"; array_api takes round, trunc, ceil, floor'},
    spelling="array_api:OP (round, trunc, ceil, floor)",
    model=MODEL,
    examples=by_mode({op: (X, y) for op, y in RESULTS.items()}, ("float32", "float64")),
)
