"""``directml``: FLOOR, CEIL and CAST, with the rules of ROUND's tensors."""

from __future__ import annotations

import math
from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    Broken,
    Example,
    Model,
    OperatorCases,
    Whole,
    conversion,
    datatypes,
    spelled,
)
from support.cases.dialects.directml_linear import CASES as LINEAR
from support.cases.dialects.directml_round import (
    ALL_LEVELS,
    IN,
    LENGTH,
    OUT,
    ROUND,
    TYPED,
    X,
    both,
    ranked,
    ranks,
    rounded_up,
)
from tensor_round.contract.rounding import Rounding


def wrong_ranks(operator: str, *, of_cast: bool = False) -> list[Broken]:
    """Ranks that each feature level refuses of an operator that is as old as DirectML."""
    return [
        (
            ranked(level, rank),
            {
                f"{IN}.Sizes": Whole(
                    f"directml {level}: {operator} takes "
                    f"{'exactly 4' if len(taken) == 1 else '1 to 8'} dimensions, got {rank}"
                )
            },
        )
        for level in ALL_LEVELS
        for taken in [ranks(level, of_cast=of_cast)]
        for rank in {*range(11)} - taken
    ]


def directed(
    name: str, number: int, made: Any, rounding: Rounding, results: tuple[float, ...]
) -> OperatorCases:
    """ELEMENT_WISE_FLOOR or ELEMENT_WISE_CEIL."""
    operator = f"ELEMENT_WISE_{name}"
    return OperatorCases(
        example={
            "dialect": "directml",
            "feature_level": "3_0",
            "type": f"DML_OPERATOR_{operator}",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
                "ScaleBias": None,
            },
        },
        operator=(made(), "float32"),
        word=f"directml:{name}",
        dtypes={"FLOAT32": "float32", "FLOAT16": "float16"},
        rounding=rounding,
        dtype_at=TYPED,
        defaulted={"desc.ScaleBias"},
        accepted=[
            *[
                (ranked(level, rank), {"input.shape": (1,) * rank, "rounding": rounding})
                for level in ALL_LEVELS
                for rank in ranks(level)
            ],
            (spelled(operator, number, at=["type"]), {"rounding": rounding}),
            ({f"{OUT}.Strides": [5, 1]}, {"output.byte_length": 32, "is_in_place": False}),
        ],
        refusals=[
            ("feature_level", "0_9", "directml: a feature level takes 1_0, 2_0, 2_1, 3_0, "),
            ("desc.ScaleBias", {"Scale": 1, "Bias": 0}, "must be null, got an object"),
            ("desc.RoundingMode", 1, "unknown field"),
            (f"{OUT}.DataType", "FLOAT16", "directml: must equal the InputTensor's DataType"),
            (f"{OUT}.Strides", [0, 1], "must not overlap"),
        ],
        broken=[
            *wrong_ranks(operator),
            (
                dict.fromkeys(TYPED, "FLOAT64"),
                dict.fromkeys(TYPED, f"{operator} takes FLOAT32, FLOAT16"),
            ),
        ],
        refused=[
            (lambda: made("0_9"), "feature_level", "a feature level takes 1_0"),
            (lambda: made("2_0").prepare("float32", (2, 3)), f"{IN}.Sizes", "exactly 4"),
        ],
        words={
            f"directml:{name}": made(),
            f"directml:{operator}:2_0": made("2_0"),
            f"directml:DML_OPERATOR_{operator}:4096": made("1_0"),
        },
        wrong_words={
            f"directml:{name}:up": 'got "up"; directml: a feature level takes 1_0, ',
            f"directml:{name}:3_0:1": f"or directml:{name} or directml:{name}:FEATURE_LEVEL",
        },
        spelling=f"directml:{name} or directml:{name}:FEATURE_LEVEL",
        model=Model(
            f"directml_{operator.lower()}",
            "InputTensor",
            "OutputTensor",
            None,
            {
                level: ("FP32,FP16", "4-4" if len(ranks(level)) == 1 else "1-8")
                for level in ALL_LEVELS
            },
        ),
        examples={
            level: Example(X, results, ("float32", "float16"), version=level, shapes=shapes)
            for level, shapes in (("1_0", ((1, 1, 3, 3),)), ("3_0", ((9,), (3, 3))))
        },
    )


#: DML_TENSOR_DATA_TYPE of CAST: C integers, dtypes, and the feature level that added them.
CAST_TYPES: dict[str, tuple[int, str, str]] = {
    "FLOAT32": (1, "float32", "1_0"), "FLOAT16": (2, "float16", "1_0"),
    "FLOAT64": (9, "float64", "4_1"),
    "UINT8": (5, "uint8", "1_0"), "UINT16": (4, "uint16", "1_0"),
    "UINT32": (3, "uint32", "3_0"), "UINT64": (10, "uint64", "3_0"),
    "INT8": (8, "int8", "1_0"), "INT16": (7, "int16", "1_0"),
    "INT32": (6, "int32", "3_0"), "INT64": (11, "int64", "3_0"),
}  # fmt: skip


def cast_types(level: str) -> dict[str, str]:
    """The types of CAST at a feature level, in DirectML's order of them."""
    old = ("FLOAT32", "FLOAT16", "INT16", "INT8", "UINT16", "UINT8")
    return {
        name: CAST_TYPES[name][1]
        for name in (old if ALL_LEVELS[level] < 0x3000 else CAST_TYPES)
        if ALL_LEVELS[CAST_TYPES[name][2]] <= ALL_LEVELS[level]
    }


ANY_CAST: Any = tr.DirectMLCast
FOUR = [1, 1, 2, 3]

CAST = OperatorCases(
    example={
        "dialect": "directml",
        "feature_level": "4_1",
        "type": "DML_OPERATOR_CAST",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT16", "Sizes": [2, 3]},
        },
    },
    operator=(tr.DirectMLCast("float16", feature_level="4_1"), "float32"),
    word="directml:CAST",
    dtypes={name: dtype for name, (_, dtype, _) in CAST_TYPES.items()},
    rounds_to_integral=False,
    accepted=[
        *[
            (ranked(level, rank), {"input.shape": (1,) * rank})
            for level in ALL_LEVELS
            for rank in ranks(level, of_cast=True)
        ],
        *[
            (
                [
                    {
                        "feature_level": level,
                        **both("Sizes", FOUR),
                        f"{IN}.DataType": source,
                        f"{OUT}.DataType": target,
                    }
                    for level in ALL_LEVELS
                    if source in cast_types(level) and target in cast_types(level)
                ],
                {
                    "input.dtype.name": CAST_TYPES[source][1],
                    "output.dtype.name": CAST_TYPES[target][1],
                    "output.byte_length": rounded_up,
                    "function": conversion(CAST_TYPES[source][1], CAST_TYPES[target][1]),
                },
            )
            for source in CAST_TYPES
            for target in CAST_TYPES
        ],
        *[
            (
                spelled(f"DML_TENSOR_DATA_TYPE_{name}", number, at=[f"{OUT}.DataType"]),
                {"output.dtype.name": dtype},
            )
            for name, (number, dtype, _) in CAST_TYPES.items()
        ],
        (spelled("CAST", 61, at=["type"]), None),
        # Five bytes, with what follows them up to a multiple of 4.
        (
            {f"{IN}.DataType": "INT8", **both("Sizes", [5])},
            {
                "input.byte_length": 8,
                "shortest_input": 5,
                "output.byte_length": 12,
                "is_in_place": False,
            },
        ),
        (
            {f"{IN}.Strides": [1, 2], LENGTH: 40, f"{OUT}.Strides": [5, 1]},
            {"input.byte_length": 40, "output.strides": (5, 1), "output.byte_length": 16},
        ),
    ],
    refusals=[
        ("feature_level", "7_0", "directml: a feature level takes 1_0, 2_0, 2_1, "),
        (f"{OUT}.DataType", "BOOL", "directml: a tensor's DataType takes FLOAT32, FLOAT16, "),
        (f"{OUT}.DataType", 0, "got 0"),
        (f"{OUT}[DataType]", {"Sizes": [2, 3]}, "is required"),
        (f"{OUT}.Sizes", [3, 2], "directml: must equal the InputTensor's Sizes"),
        (f"{OUT}.TotalTensorSizeInBytes", 8, "must be at least 12, the end of the last element"),
        (f"{OUT}.Strides", [2, 1], "must not overlap"),
        (f"{OUT}.Flags", 1, "directml: OWNED_BY_DML is for inputs only"),
        (f"{OUT}.GuaranteedBaseOffsetAlignment", 1, "a power of two of at least 2, "),
        ("desc.RoundingMode", 0, "unknown field"),
    ],
    broken=[
        *wrong_ranks("CAST", of_cast=True),
        *[
            (
                [
                    {"feature_level": level, **both("Sizes", FOUR), field: name}
                    for level in ALL_LEVELS
                    if name not in cast_types(level)
                ],
                {field: f"got {name}; directml "},
            )
            for name, (_, _, since) in CAST_TYPES.items()
            if since != "1_0"
            for field in TYPED
        ],
        (
            {"feature_level": "2_1", **both("Sizes", FOUR), f"{OUT}.DataType": "INT32"},
            {
                f"{OUT}.DataType": Whole(
                    "got INT32; directml 2_1: CAST takes FLOAT32, FLOAT16, INT16, INT8, UINT16, "
                    "UINT8"
                )
            },
        ),
    ],
    refused=[
        (lambda: ANY_CAST("bfloat16"), f"{OUT}.DataType", 'got "bfloat16"; directml: a tensor'),
        (lambda: ANY_CAST("float64", "4_0"), f"{OUT}.DataType", "got FLOAT64; directml 4_0: CAST"),
        (lambda: ANY_CAST("int8", "0_9"), "feature_level", "a feature level takes 1_0"),
        (lambda: ANY_CAST("int8", "3_0").prepare("float32", (6,)), f"{IN}.Sizes", "exactly 4"),
    ],
    words={
        **dict.fromkeys(("directml", "directml:CAST"), tr.DirectMLCast("float16")),
        "directml:CAST:3_0": tr.DirectMLCast("float16", "3_0"),
        "directml:DML_OPERATOR_CAST:DML_FEATURE_LEVEL_6_4": tr.DirectMLCast("float16", "6_4"),
    },
    wrong_words={
        "directml:CEIL": 'got "directml:CEIL": it does not cast to a type',
        "directml:CAST:up": 'got "up"; directml: a feature level takes 1_0, ',
        "directml:CAST:3_0:1": "write directml:CAST or directml:CAST:FEATURE_LEVEL",
    },
    spelling="directml:CAST or directml:CAST:FEATURE_LEVEL",
    optional=(f"{IN}.Strides", f"{OUT}.Strides", LENGTH),
    model=Model(
        "directml_cast",
        "InputTensor",
        "OutputTensor",
        None,
        {
            level: (
                datatypes(cast_types(level).values()),
                "4-4" if len(ranks(level, of_cast=True)) == 1 else "1-8",
            )
            for level in ALL_LEVELS
        },
    ),
    # Its page says "cast(x)" alone.
    examples={
        "to a float": Example(
            (2049, 65519, 65520), (2048, 65504, math.inf), ("float32",), to="float16"
        ),
        "to an integer": Example((-1.75, 0.5, 2.5), (-1, 0, 2), ("float16",), to="int8"),
        "old": Example(
            (-1, 300), (255, 44), ("int16",), version="1_0", shapes=((1, 1, 1, 2),), to="uint8"
        ),
    },
)

CASES = {
    "directml": ROUND,
    "directml:ELEMENT_WISE_FLOOR": directed(
        "FLOOR",
        12,
        tr.DirectMLFloor,
        Rounding.TOWARD_NEGATIVE,
        (-3, -2, -2, -2, 0, 1, 1, 1, 2),
    ),
    "directml:ELEMENT_WISE_CEIL": directed(
        "CEIL", 7, tr.DirectMLCeil, Rounding.TOWARD_POSITIVE, (-2, -1, -1, -1, 0, 2, 2, 2, 3)
    ),
    "directml:CAST": CAST,
    **LINEAR,
}
