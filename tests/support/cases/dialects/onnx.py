"""``onnx``: Round, Floor, Ceil and Cast, by version, and what their specification refuses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    ABSENT,
    Example,
    Model,
    OperatorCases,
    Whole,
    conversion,
    datatypes,
    shapes,
    spelled,
)
from support.cases.dialects.onnx_linear import CASES as LINEAR
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Convert
from tensor_round.contract.rounding import Rounding

# TensorProto.DataType, type string, canonical dtype, the oldest opset that takes it
TYPES = [
    ("FLOAT16", "tensor(float16)", "float16", 11),
    ("FLOAT", "tensor(float)", "float32", 11),
    ("DOUBLE", "tensor(double)", "float64", 11),
    ("BFLOAT16", "tensor(bfloat16)", "bfloat16", 22),
]
OPSETS = range(11, 29)
NOT_ROUND = [
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BOOL",
    "STRING",
    "COMPLEX64",
    "FLOAT8E4M3FN",
    "FLOAT8E5M2",
    "INT4",
    "UNDEFINED",
    "tensor(int32)",
    "float16",
    "Float",
    "tensor(FLOAT)",
    "float32",
    "seq(tensor(float))",
    "",
    1,
    10,
    None,
    True,
]
MODEL = Model(
    "onnx_round",
    "X",
    "Y",
    None,
    {"11": ("FP16,FP32,FP64", "0-32"), "22": ("FP16,FP32,FP64,BF16", "0-32")},
)
#: Called as by someone whom no type checker stops.
ANY: Any = tr.OnnxRound
LOOSE: Any = tr
NUMBERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "the five values": ((0.9, 2.5, 2.3, 1.5, -4.5), (1, 2, 2, 2, -4)),
    # onnx.backend.test.case.node.round: the suite's test_round.
    "the suite's node case": (
        (0.1, 0.5, 0.9, 1.2, 1.5, 1.8, 2.3, 2.5, 2.7, -1.1, -1.5, -1.9, -2.2, -2.5, -2.8),
        (0, 0, 1, 1, 2, 2, 2, 2, 3, -1, -2, -2, -2, -2, -3),
    ),
}
ROUND_11 = ("float16", "float32", "float64")


def of(opset: int, *spellings: str) -> list[dict[str, Any]]:
    """The example of an opset, in each spelling of a type."""
    return [{"opset_version": opset, "input.elem_type": spelling} for spelling in spellings]


ROUND = OperatorCases(
    example={
        "dialect": "onnx",
        "op_type": "Round",
        "opset_version": 22,
        "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
    },
    operator=(tr.OnnxRound(opset_version=22), "<f2"),
    word="onnx",
    dtypes={name: dtype for name, _, dtype, _ in TYPES},
    accepted=[
        *[
            (
                of(opset, name, type_string),
                {"input.dtype.name": dtype, "rounding": Rounding.TIES_TO_EVEN, "is_in_place": True},
            )
            for opset in OPSETS
            for name, type_string, dtype, since in TYPES
            if opset >= since
        ],
        *shapes("input.shape"),
        (spelled("", "ai.onnx", at=["domain"]), None),
    ],
    refusals=[
        *[
            ("input.elem_type", name, " onnx: rounding takes FLOAT16, FLOAT, DOUBLE, BFLOAT16")
            for name in NOT_ROUND
        ],
        ("opset_version", 10, "onnx: Round was introduced in opset 11, got 10"),
        ("opset_version", 29, "onnx: the newest opset known here is 28, got 29"),
        ("opset_version", 10**60, "got an integer of 200 bits"),
        ("opset_version", "22", "must be an integer"),
        ("opset_version", True, "must be an integer"),
        ("op_type", "Trunc", 'got "Trunc"; onnx: this dialect takes Round, Floor, Ceil, Cast'),
        ("input.shape[0]", ["N"], 'an integer, got "N"'),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
        ("domain", "com.microsoft", "must be '' or 'ai.onnx', got"),
    ],
    broken=[
        (
            of(opset, name, type_string),
            {
                "input.elem_type": Whole(
                    f"{name} needs opset {since} or newer; "
                    "onnx Round-11 (opsets 11 to 21) takes FLOAT16, FLOAT, DOUBLE"
                )
            },
        )
        for opset in OPSETS
        for name, type_string, _, since in TYPES
        if opset < since
    ],
    refused=[
        (lambda: ANY(10), "opset_version", "opset 11"),
        (lambda: ANY(99), "opset_version", "newest"),
        (lambda: ANY(True), "opset_version", "integer"),
        (lambda: ANY(21).prepare("bfloat16", (2,)), "input.elem_type", "Round-11"),
        (lambda: ANY().descriptor("float33", (2,)), "input.elem_type", "did you mean FLOAT"),
        (lambda: LOOSE.OnnxDescriptor(dialect="mlir"), "dialect", "must be 'onnx', got \"mlir\""),
    ],
    words={"onnx": tr.OnnxRound(), "onnx:11": tr.OnnxRound(11)},
    wrong_words={
        "onnx:": "onnx:OPSET (11 to 28)",
        "onnx:x": "onnx:OPSET (11 to 28)",
        "onnx:10": "introduced in opset 11, got 10",
        "onnx:29": "newest opset known here is 28, got 29",
        "onnx:22:x": "write onnx or onnx:OPSET",
        "onnx:Cast:24": 'got "onnx:Cast:24": it needs to, the target type',
    },
    spelling="onnx or onnx:OPSET (11 to 28)",
    model=MODEL,
    examples={
        f"Round-{opset}, {name}": Example(
            *pair,
            ROUND_11 if opset == 11 else (*ROUND_11, "bfloat16"),
            version=str(opset),
        )
        for opset in (11, 22)
        for name, pair in NUMBERS.items()
    },
)


def directed(
    name: str, made: Any, rounding: Rounding, results: dict[float, float]
) -> OperatorCases:
    """Floor or Ceil, with the numbers of the suite's ``test_floor_example`` or that of ceil."""
    return OperatorCases(
        example={
            "dialect": "onnx",
            "op_type": name,
            "opset_version": 13,
            "input": {"elem_type": "FLOAT", "shape": [2, 3]},
        },
        operator=(made(opset_version=13), "float32"),
        word=f"onnx:{name}",
        dtypes={name: dtype for name, _, dtype, _ in TYPES},
        rounding=rounding,
        accepted=[
            *[
                (of(opset, name, text), {"input.dtype.name": dtype, "rounding": rounding})
                for opset in range(6, 29)
                for name, text, dtype, since in TYPES
                if opset >= 13 or since == 11
            ],
            *shapes("input.shape"),
        ],
        refusals=[
            ("input.elem_type", "INT8", "onnx: rounding takes FLOAT16, FLOAT, DOUBLE, BFLOAT16"),
            ("opset_version", 5, f"onnx: {name}-6 is the oldest version known here, got 5"),
            ("opset_version", 29, "onnx: the newest opset known here is 28, got 29"),
            ("to", "FLOAT", "unknown field"),
        ],
        broken=[
            (
                of(12, "BFLOAT16"),
                {
                    "input.elem_type": "BFLOAT16 needs opset 13 or newer; "
                    f"onnx {name}-6 (opsets 6 to 12) takes FLOAT16, FLOAT, DOUBLE"
                },
            )
        ],
        refused=[(lambda: made(5), "opset_version", f"{name}-6 is the oldest")],
        words={f"onnx:{name}": made(), f"onnx:{name}:13": made(13)},
        wrong_words={
            f"onnx:{name}:x": f"onnx:{name}:OPSET (6 to 28)",
            f"onnx:{name}:5": "is the oldest version known here, got 5",
        },
        spelling=f"onnx:{name} or onnx:{name}:OPSET (6 to 28)",
        model=Model(
            f"onnx_{name.lower()}",
            "X",
            "Y",
            None,
            {"6": ("FP16,FP32,FP64", "0-32"), "13": ("FP16,FP32,FP64,BF16", "0-32")},
        ),
        examples={
            f"{name}-{opset}": Example((*results,), (*results.values(),), dtypes, version=opset)
            for opset, dtypes in (("6", ROUND_11), ("13", (*ROUND_11, "bfloat16")))
        },
    )


#: The types of Cast by the version that added them: names, numbers in TensorProto, and dtypes.
ADDED: dict[int, list[tuple[str, int, str]]] = {
    9: [
        ("FLOAT16", 10, "float16"), ("FLOAT", 1, "float32"), ("DOUBLE", 11, "float64"),
        ("INT8", 3, "int8"), ("INT16", 5, "int16"), ("INT32", 6, "int32"), ("INT64", 7, "int64"),
        ("UINT8", 2, "uint8"), ("UINT16", 4, "uint16"), ("UINT32", 12, "uint32"),
        ("UINT64", 13, "uint64"),
    ],
    13: [("BFLOAT16", 16, "bfloat16")],
    19: [
        ("FLOAT8E4M3FN", 17, "float8_e4m3fn"), ("FLOAT8E4M3FNUZ", 18, "float8_e4m3fnuz"),
        ("FLOAT8E5M2", 19, "float8_e5m2"), ("FLOAT8E5M2FNUZ", 20, "float8_e5m2fnuz"),
    ],
    21: [("INT4", 22, "int4"), ("UINT4", 21, "uint4")],
    23: [("FLOAT4E2M1", 23, "float4_e2m1fn")],
    24: [("FLOAT8E8M0", 24, "float8_e8m0fnu")],
    25: [],
}  # fmt: skip
#: Name, number, dtype and first opset.
CAST_TYPES = [
    (name, number, dtype, since) for since, added in ADDED.items() for name, number, dtype in added
]
ANY_CAST: Any = tr.OnnxCast
EVEN = Rounding.TIES_TO_EVEN
#: By ONNX's tables of saturation, and ties to even below the largest number.
X = (1.0, 17, 19, -21, 448, 464, 466, -1e5, math.inf, -0.0, 2**-10, 3 * 2**-11)
NEAR, TINY = (1.0, 16, 20, -20, 448, 448), (-0.0, 0, 2**-9)
SATURATED, OVERFLOWN = (448, -448, 448), (math.nan, -math.nan, math.nan)
E5M2 = (1.0, 16, 20, -20, 448, 448, 448)


def cast_at(opsets: Iterable[int], field: str, *values: str | int) -> list[dict[str, Any]]:
    """The example without ``saturate``, to FLOAT, with values of a field, at each opset."""
    bare = {"saturate": ABSENT, "to": "FLOAT"}
    return [{**bare, "opset_version": opset, field: value} for opset in opsets for value in values]


def to_type(dtype: str) -> Convert:
    """What a Cast from FLOAT without attributes does."""
    plain = conversion("float32", dtype, saturates=dtype.startswith("float8"))
    is_up = dtype == "float8_e8m0fnu"
    return replace(plain, rounding=Rounding.TOWARD_POSITIVE) if is_up else plain


CAST = OperatorCases(
    example={
        "dialect": "onnx",
        "op_type": "Cast",
        "opset_version": 24,
        "to": "FLOAT8E4M3FN",
        "saturate": 1,
        "input": {"elem_type": "FLOAT", "shape": [2, 3]},
    },
    operator=(tr.OnnxCast(BY_NAME["float8_e4m3fn"].numpy, 24, saturate=True), "<f4"),
    word="onnx:Cast",
    dtypes={name: dtype for name, _, dtype, _ in CAST_TYPES},
    rounds_to_integral=False,
    defaulted={"saturate"},
    in_every_version={"to": "DOUBLE", "saturate": ABSENT},
    accepted=[
        *[
            (
                cast_at(range(since, 29), "to", name, number),
                {"output.dtype.name": dtype, "function": to_type(dtype)},
            )
            for name, number, dtype, since in CAST_TYPES
        ],
        *[
            (
                cast_at(range(since, 29), "input.elem_type", name, f"tensor({name.lower()})"),
                {"input.dtype.name": dtype, "function": conversion(dtype, "float32")},
            )
            for name, _, dtype, since in CAST_TYPES
        ],
        ({"saturate": 0}, {"function": Convert(EVEN)}),
        (spelled(0, 1, ABSENT, at=["saturate"]), {"rounding": EVEN, "is_in_place": True}),
        *[
            (
                [{"to": name, "saturate": 0}, {"to": name, "round_mode": "down"}],
                {"function": conversion("float32", dtype)},
            )
            for name, dtype in (("DOUBLE", "float64"), ("FLOAT16", "float16"), ("INT8", "int8"))
        ],
        (spelled("up", "down", "nearest", at=["round_mode"]), None),
        *shapes("input.shape"),
        (spelled("", "ai.onnx", at=["domain"]), None),
    ],
    refusals=[
        *[
            (field, value, f"got {value}; onnx: Cast takes FLOAT16, FLOAT, DOUBLE, INT8, ")
            for field, value in (("to", 0), ("to", 99), ("input.elem_type", 1))
        ],
        *[
            (field, value, f"got {name}: {why}")
            for name, number, why in (
                ("BOOL", 9, "a conversion of bool rounds nothing; compare with 0"),
                ("STRING", 8, "text is no tensor of numbers; send numbers as JSON"),
                ("UINT2", 25, "types of two bits are not served"),
                ("INT2", 26, "types of two bits are not served"),
            )
            for field, value in (
                ("to", name),
                ("to", number),
                ("input.elem_type", name),
                ("input.elem_type", f"tensor({name.lower()})"),
            )
        ],
        ("to", "float16", 'got "float16"; did you mean FLOAT16? onnx: Cast takes FLOAT16, '),
        ("to", "COMPLEX64", "onnx: Cast takes "),
        ("to", True, "got true"),
        ("to", None, "got null"),
        ("saturate", 2, "must be at most 1, got 2"),
        ("saturate", True, "must be an integer, got true"),
        ("saturate", "1", 'must be an integer, got "1"'),
        ("round_mode", "even", "must be 'up', 'down' or 'nearest', got \"even\""),
        ("opset_version", 8, "onnx: Cast-9 is the oldest version known here, got 8"),
        ("opset_version", 29, "onnx: the newest opset known here is 28, got 29"),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
        ("axis", 1, "unknown field"),
    ],
    broken=[
        *[
            (
                cast_at(range(9, since), field, name),
                {field: f"{name} needs opset {since} or newer; "},
            )
            for name, _, _, since in CAST_TYPES
            if since > 9
            for field in ("to", "input.elem_type")
        ],
        (
            {"opset_version": 18, "input.elem_type": "FLOAT8E5M2", "round_mode": "up"},
            {
                "input.elem_type": Whole(
                    "FLOAT8E5M2 needs opset 19 or newer; onnx Cast-13 (opsets 13 to 18) takes "
                    "FLOAT16, FLOAT, DOUBLE, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, "
                    "UINT64, BFLOAT16"
                ),
                "to": "FLOAT8E4M3FN needs opset 19 or newer; ",
                "saturate": "onnx: saturate needs opset 19 or newer",
                "round_mode": "onnx: round_mode needs opset 24 or newer",
            },
        ),
    ],
    refused=[
        (lambda: ANY_CAST("bool"), "to", 'got "bool"; onnx: Cast takes FLOAT16, '),
        (lambda: ANY_CAST("float32", 8), "opset_version", "Cast-9 is the oldest version known"),
        (lambda: ANY_CAST("float8_e5m2", 18), "to", "FLOAT8E5M2 needs opset 19 or newer"),
        (lambda: ANY_CAST("float16", 18, saturate=True), "saturate", "needs opset 19 or newer"),
        (lambda: ANY_CAST("int8").prepare("bool", (2,)), "input.elem_type", 'got "bool"'),
    ],
    words={
        **dict.fromkeys(("onnx", "onnx:Cast"), tr.OnnxCast("float8_e4m3fn")),
        **dict.fromkeys(("onnx:24", "onnx:Cast:24"), tr.OnnxCast("float8_e4m3fn", 24)),
    },
    wrong_words={
        "onnx:Floor": 'got "onnx:Floor": it does not cast to a type',
        "onnx:Cast:8": "Cast-9 is the oldest version known here, got 8",
        "onnx:Cast:18": "FLOAT8E4M3FN needs opset 19 or newer",
        "onnx:Cast:24:1": "write onnx:Cast or onnx:Cast:OPSET (9 to 28)",
        "onnx:up": "write onnx:Cast or onnx:Cast:OPSET (9 to 28)",
    },
    spelling="onnx:Cast or onnx:Cast:OPSET (9 to 28)",
    optional=("round_mode", "domain"),
    model=Model(
        "onnx_cast",
        "input",
        "output",
        None,
        {
            str(opset): (datatypes(d for _, _, d, since in CAST_TYPES if since <= opset), "0-32")
            for opset in ADDED
        },
    ),
    examples={
        f"{to}, {saturate}": Example(X, result, ("float32", "float64"), to=to, saturate=saturate)
        for to, saturate, result in (
            ("float8_e4m3fn", None, (*NEAR, *SATURATED, *TINY)),
            ("float8_e4m3fn", False, (*NEAR, *OVERFLOWN, *TINY)),
            (
                "float8_e5m2",
                None,
                (*E5M2, -57344, 57344, -0.0, 2**-10, 3 * 2**-11),
            ),
            (
                "float8_e5m2",
                False,
                (*E5M2, -math.inf, math.inf, -0.0, 2**-10, 3 * 2**-11),
            ),
        )
    },
)

CASES = {
    "onnx": ROUND,
    "onnx:Floor": directed(
        "Floor", tr.OnnxFloor, Rounding.TOWARD_NEGATIVE, {-1.5: -2, 1.2: 1, 2.0: 2}
    ),
    "onnx:Ceil": directed("Ceil", tr.OnnxCeil, Rounding.TOWARD_POSITIVE, {-1.5: -1, 1.2: 2}),
    "onnx:Cast": CAST,
    **LINEAR,
}
