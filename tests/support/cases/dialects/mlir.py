"""``mlir``: five operations of MLIR's ``math`` dialect on its float types, and ``arith`` casts."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    MLIR_TYPES,
    Example,
    Model,
    OperatorCases,
    by_mode,
    conversion,
    datatypes,
    shapes,
)
from tensor_round.contract.rounding import Rounding

OPS = {
    "math.roundeven": Rounding.TIES_TO_EVEN,
    "math.round": Rounding.TIES_TO_AWAY,
    "math.trunc": Rounding.TOWARD_ZERO,
    "math.ceil": Rounding.TOWARD_POSITIVE,
    "math.floor": Rounding.TOWARD_NEGATIVE,
}
MODEL = Model(
    "mlir_math", "operand", "result", "op", {"1": (datatypes(MLIR_TYPES.values()), "0-32")}
)
#: Called as by someone whom no type checker stops.
ANY: Any = tr.MLIRRound
#: The operands and results of MLIR's test-expand-math-approx.mlir; it has none for the other three.
FAR = (
    (3.8, -3.8, -4.2, -495, 495, 8.5, -8.5, -0.4, -0.0, 0.0, 0.5),
    (4, -4, -4, -495, 495, 9, -9, -0.0, -0.0, 0.0, 1),
)
QUARTERS = tuple(n / 4 for n in range(1, 16))
EVEN = (0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4)
NUMBERS: dict[Any, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "math.roundeven": (
        (*QUARTERS, *(-x for x in QUARTERS), -0.0, 0.0),
        (*EVEN, *(-float(y) for y in EVEN), -0.0, 0.0),
    ),
    "math.trunc": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-3, -2, -0.0, 0, 1, 7)),
    "math.ceil": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-3, -2, -0.0, 1, 2, 7)),
    "math.floor": ((-3.5, -2.25, -0.25, 0.75, 1.5, 7), (-4, -3, -1, 0, 1, 7)),
}

ROUND = OperatorCases(
    example={"dialect": "mlir", "op": "math.round", "element_type": "f32", "shape": [2, 3]},
    operator=(tr.MLIRRound("math.round"), "<f4"),
    word="mlir",
    dtypes=MLIR_TYPES,
    modes=OPS,
    dtype_at=("element_type",),
    mode_at="op",
    accepted=shapes("shape"),
    refusals=[
        ("element_type", "i32", "; mlir: math takes f16, bf16, f32, f64, f8E4M3FN, f8E5M2"),
        ("element_type", "float32", 'got "float32"'),
        ("element_type", "f8E8M0FNU", "got f8E8M0FNU: it is not closed under rounding"),
        ("op", "round", "mlir: this dialect takes math.roundeven, math.round, math.trunc, "),
        ("shape[0]", ["?"], 'must be an integer, got "?"'),
        ("shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[
        (lambda: ANY("round"), "op", "math.roundeven, math.round"),
        (
            lambda: ANY().prepare("int32", (2,)),
            "element_type",
            'got "int32"; mlir: math takes f16, ',
        ),
    ],
    words={
        "mlir:math.round": tr.MLIRRound("math.round"),
        "mlir:math.roundeven": tr.MLIRRound(),
    },
    wrong_words={
        "mlir": "write mlir:OP",
        "mlir:round": 'got "round"; mlir: math takes math.roundeven, ',
        "mlir:math.round:f32": "write mlir:OP",
        "mlir:arith.sitofp": 'got "mlir:arith.sitofp": it needs to, the target type',
    },
    spelling="mlir:OP (math.roundeven, math.round, math.trunc, math.ceil, math.floor)",
    model=MODEL,
    examples={
        **by_mode({"math.round": FAR}, ("float16", "float32", "float64")),
        **by_mode(NUMBERS, ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")),
    },
)

FLOAT_TYPES = {**MLIR_TYPES, "f8E8M0FNU": "float8_e8m0fnu"}
WIDTHS = (4, 8, 16, 32, 64)
CONVERTED = {**FLOAT_TYPES, **{f"i{width}": f"int{width}" for width in WIDTHS}}
UNSIGNED = {f"i{width}": f"uint{width}" for width in WIDTHS}
#: Operations with their element types, and the dtypes that these mean.
PAIRS: list[tuple[str, str, str, str, str]] = [
    ("arith.extf", "f16", "f32", "float16", "float32"),
    ("arith.extf", "bf16", "f64", "bfloat16", "float64"),
    ("arith.extf", "f8E5M2", "f16", "float8_e5m2", "float16"),
    ("arith.truncf", "f64", "f32", "float64", "float32"),
    ("arith.truncf", "f32", "f8E4M3FN", "float32", "float8_e4m3fn"),
    *[
        (f"arith.fpto{mark}i", name, f"i{width}", dtype, f"{sign}int{width}")
        for name, dtype in FLOAT_TYPES.items()
        for width in WIDTHS
        for mark, sign in (("s", ""), ("u", "u"))
    ],
    *[
        (f"arith.{mark}itofp", f"i{width}", name, f"{sign}int{width}", dtype)
        for name, dtype in FLOAT_TYPES.items()
        for width in WIDTHS
        for mark, sign in (("s", ""), ("u", "u"))
    ],
]
ANY_CONVERT: Any = tr.MLIRConvert
SPELLED = "arith.extf, arith.truncf, arith.fptosi, arith.fptoui, arith.sitofp, arith.uitofp"

CONVERT = OperatorCases(
    example={
        "dialect": "mlir",
        "op": "arith.truncf",
        "element_type": "f32",
        "result_element_type": "f16",
        "shape": [2, 3],
    },
    operator=(tr.MLIRConvert("float16", "arith.truncf"), "<f4"),
    word="mlir",
    dtypes=CONVERTED,
    unsigned=UNSIGNED,
    rounds_to_integral=False,
    accepted=[
        *[
            (
                {"op": op, "element_type": source, "result_element_type": target},
                {
                    "input.dtype.name": given,
                    "output.dtype.name": made,
                    "function": conversion(given, made),
                },
            )
            for op, source, target, given, made in PAIRS
        ],
        *shapes("shape"),
    ],
    refusals=[
        *[
            ("result_element_type", name, "mlir: arith.truncf: must be narrower than element_type")
            for name in ("f32", "f64")
        ],
        ("result_element_type", "i8", "mlir: arith.truncf takes one of f16, bf16, f32, f64, "),
        *[
            (field, name, f'got "{name}"; ')
            for field in ("element_type", "result_element_type")
            for name in ("i1", "ui8", "si8", "index", "float32")
        ],
        ("op", "arith.bitcast", "; mlir: this dialect takes math.roundeven, "),
        ("shape[0]", ["?"], 'must be an integer, got "?"'),
    ],
    broken=[
        (
            {"op": "arith.extf", "result_element_type": "f16"},
            {"result_element_type": "mlir: arith.extf: must be wider than element_type"},
        ),
        (
            {"op": "arith.uitofp", "result_element_type": "i32"},
            {
                "element_type": "arith.uitofp takes one of i4, i8, i16, i32, i64 here, got f32",
                "result_element_type": "mlir: arith.uitofp takes one of f16, bf16, f32, f64, ",
            },
        ),
    ],
    refused=[
        (lambda: ANY_CONVERT("bool"), "result_element_type", 'got "bool"'),
        (lambda: ANY_CONVERT("int8", "x"), "op", 'got "x"; mlir: arith takes arith.extf'),
        # An integer of MLIR has no sign: the operation must be that of the dtypes.
        (lambda: ANY_CONVERT("int8", "arith.fptoui"), "op", "from float32 to int8"),
        (lambda: ANY_CONVERT("float64", "arith.fptosi"), "op", "to float64"),
        (
            lambda: ANY_CONVERT("float32", "arith.sitofp").prepare("uint8", (2,)),
            "op",
            "from uint8 to float32 takes arith.uitofp, got arith.sitofp",
        ),
        (
            lambda: ANY_CONVERT("int8").prepare("int16", (2,)),
            "result_element_type",
            "mlir: arith: one of the two types must be a float",
        ),
        (
            lambda: ANY_CONVERT("float16").prepare("bfloat16", (2,)),
            "result_element_type",
            "must be narrower than element_type",
        ),
    ],
    words={
        "mlir": tr.MLIRConvert("float16"),
        "mlir:arith.truncf": tr.MLIRConvert("float16", "arith.truncf"),
    },
    wrong_words={
        "mlir:math.round": 'got "mlir:math.round": it does not cast to a type',
        "mlir:arith.fptosi": "to float16",
        "mlir:x": 'got "x"; mlir: arith takes arith.extf, ',
    },
    spelling=f"mlir or mlir:OP ({SPELLED})",
    model=Model(
        "mlir_arith",
        "operand",
        "result",
        None,
        {"1": (datatypes([*CONVERTED.values(), *UNSIGNED.values()]), "0-32")},
    ),
    # "Rounding towards zero", and the default rounding mode, to nearest even, by example.
    examples={
        "fptosi": Example((-1.75, 0.5, 2.5), (-1, 0, 2), ("float32", "bfloat16"), to="int8"),
        "fptoui": Example((0.75, 255.5), (0, 255), ("float32",), to="uint8"),
        "uitofp": Example((2**24 + 1, 2**24 + 3), (2**24, 2**24 + 4), ("uint32",), to="float32"),
        "truncf": Example((2049, 2051), (2048, 2052), ("float32", "float64"), to="float16"),
    },
)

CASES = {"mlir": ROUND, "mlir:arith": CONVERT}
