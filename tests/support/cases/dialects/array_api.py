"""``array_api``: four functions on the standard's real-valued types, and astype."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    Example,
    Model,
    OperatorCases,
    by_mode,
    conversion,
    datatypes,
    shapes,
)
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
MODEL = Model("array_api_round", "x", "out", "op", {"2021.12": (datatypes(DTYPES), "0-32")})
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

ROUND = OperatorCases(
    example={"dialect": "array_api", "op": "round", "x": {"dtype": "float32", "shape": [2, 3]}},
    operator=(tr.ArrayAPIRound("round"), "float32"),
    word="array_api",
    dtypes={name: name for name in DTYPES},
    modes=OPS,
    dtype_at=("x.dtype",),
    mode_at="op",
    accepted=shapes("x.shape"),
    refusals=[
        ("x.dtype", "complex128", "got complex128; send its real and imaginary parts"),
        ("x.dtype", "float16", "array_api takes float32, float64, int8, "),
        ("op", "rint", "; array_api: this dialect takes round, trunc, ceil, floor, astype"),
        ("x.shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[(lambda: ANY("rint"), "op", "round, trunc, ceil, floor")],
    words={"array_api:trunc": tr.ArrayAPIRound("trunc")},
    wrong_words={"array_api:rint": 'got "rint"; array_api takes round, trunc, ceil, floor'},
    spelling="array_api:OP (round, trunc, ceil, floor)",
    model=MODEL,
    examples=by_mode({op: (X, y) for op, y in RESULTS.items()}, ("float32", "float64")),
)

#: Called as by someone whom no type checker stops.
ANY_ASTYPE: Any = tr.ArrayAPIAstype
#: Kinds that the standard has, and the service does not round.
REJECTED: list[tuple[str, Any, str]] = [
    ("dtype", "bool", "got bool: a conversion to bool rounds nothing; compare with 0"),
    (
        "dtype",
        "complex64",
        'got complex numbers ("complex64"); array_api: astype takes float32, float64, int8',
    ),
    ("dtype", "float16", 'got "float16"; array_api: astype takes float32, float64, int8'),
    ("dtype", 7, "got 7; array_api: astype takes"),
    ("x.dtype", "complex128", "got complex128; send its real and imaginary parts"),
    ("x.dtype", "bool", 'got "bool"; array_api takes float32'),
    ("x.shape", [1] * 33, "at most 32 dimensions, got 33"),
    ("copy", True, "unknown field"),
]

ASTYPE = OperatorCases(
    example={
        "dialect": "array_api",
        "op": "astype",
        "dtype": "float32",
        "x": {"dtype": "float64", "shape": [2, 3]},
    },
    operator=(tr.ArrayAPIAstype("float32"), "float64"),
    word="array_api:astype",
    dtypes={name: name for name in DTYPES},
    rounds_to_integral=False,
    accepted=[
        *[
            (
                {"dtype": target, "x.dtype": source},
                {
                    "input.dtype.name": source,
                    "output.dtype.name": target,
                    "function": conversion(source, target),
                },
            )
            for source in DTYPES
            for target in DTYPES
        ],
        *shapes("x.shape"),
    ],
    refusals=REJECTED,
    refused=[(lambda: ANY_ASTYPE("bool"), "dtype", "a conversion to bool rounds nothing")],
    words=dict.fromkeys(("array_api", "array_api:astype"), tr.ArrayAPIAstype("float32")),
    wrong_words={
        "array_api:floor": 'got "array_api:floor": it does not cast to a type',
        "array_api:astype:1": "write array_api:astype",
    },
    spelling="array_api:astype",
    model=Model("array_api_astype", "x", "out", None, {"2021.12": (datatypes(DTYPES), "0-32")}),
    # It has no numbers: "rounds toward zero" and type promotion's rules by example.
    examples={
        "to int64": Example((-3.75, 0.5, 7), (-3, 0, 7), ("float32", "float64"), to="int64"),
        "to float32": Example((2**24 + 1, 1), (2**24, 1), ("float64", "uint32"), to="float32"),
    },
)

CASES = {"array_api": ROUND, "array_api:astype": ASTYPE}
