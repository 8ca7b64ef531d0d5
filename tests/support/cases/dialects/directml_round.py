"""DirectML's ROUND: spellings, feature levels, how its call is laid out, and its many rules."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    ABSENT,
    Document,
    Example,
    Model,
    OperatorCases,
    Whole,
    spelled,
)
from tensor_round.contract.call import Call
from tensor_round.contract.rounding import Rounding

LEVELS = {
    "2_1": 0x2100, "3_0": 0x3000, "3_1": 0x3100, "4_0": 0x4000, "4_1": 0x4100, "5_0": 0x5000,
    "5_1": 0x5100, "5_2": 0x5200, "6_0": 0x6000, "6_1": 0x6100, "6_2": 0x6200, "6_3": 0x6300,
    "6_4": 0x6400,
}  # fmt: skip
#: Those of the other operators, which are older than ROUND.
ALL_LEVELS = {"1_0": 0x1000, "2_0": 0x2000, **LEVELS}
#: Names, C integers, directions, and the values of DirectML's documentation.
X = (-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5)
MODES: list[tuple[Any, int, Rounding, tuple[float, ...]]] = [
    ("HALVES_TO_NEAREST_EVEN", 0, Rounding.TIES_TO_EVEN, (-2, -2, -2, -1, 0, 1, 2, 2, 2)),
    ("TOWARD_ZERO", 1, Rounding.TOWARD_ZERO, (-2, -1, -1, -1, 0, 1, 1, 1, 2)),
    ("TOWARD_INFINITY", 2, Rounding.TIES_TO_AWAY, (-3, -2, -2, -1, 0, 1, 2, 2, 3)),
]
MODEL = Model(
    "directml_element_wise_round",
    "InputTensor",
    "OutputTensor",
    "rounding_mode",
    {level: ("FP32,FP16", "4-4" if level == "2_1" else "1-8") for level in LEVELS},
)
IN, OUT = "desc.InputTensor", "desc.OutputTensor"
#: Called as by someone whom no type checker stops.
ANY: Any = tr.DirectMLRound
LOOSE: Any = tr
IN_PLACE = {"is_in_place": True}
TYPED = (f"{IN}.DataType", f"{OUT}.DataType")
LENGTH, ALIGNMENT = f"{IN}.TotalTensorSizeInBytes", f"{IN}.GuaranteedBaseOffsetAlignment"
ROW = {"DataType": 1, "Sizes": [2, 3]}

# The example documents of DxDispatch's guide and parser tests, with a Round around them.
FULL: Document = {
    "Type": "DML_TENSOR_TYPE_BUFFER",
    "Desc": {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
        "Flags": "DML_TENSOR_FLAG_NONE",
        "DimensionCount": 4,
        "Sizes": [1, 1, 2, 3],
        "Strides": [6, 6, 3, 1],
        "TotalTensorSizeInBytes": 24,
        "GuaranteedBaseOffsetAlignment": 0,
    },
}
SHORT = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}
FLAT = {"Type": "BUFFER", **FULL["Desc"]}

# DataType, Sizes, Strides, TotalTensorSizeInBytes -> length, the shortest payload
LENGTHS: list[tuple[str, list[int], list[int] | None, int | None, int, int]] = [
    ("FLOAT16", [3], None, None, 8, 6),
    ("FLOAT16", [2], None, None, 4, 4),
    ("FLOAT16", [1], None, None, 4, 2),
    ("FLOAT16", [3], None, 8, 8, 8),
    ("FLOAT16", [3], None, 12, 12, 12),
    ("FLOAT32", [3], None, None, 12, 12),
    ("FLOAT32", [2, 3], [5, 1], None, 32, 32),
    ("FLOAT16", [2, 3], [4, 1], None, 16, 14),
    ("FLOAT32", [1, 3, 2, 2], [12, 1, 6, 3], None, 48, 48),
    ("FLOAT16", [5, 3], [0, 1], None, 8, 6),
    ("FLOAT32", [2**16, 2**15], [0, 0], None, 4, 4),
    ("FLOAT16", [2**32 - 1], None, None, 2**33, 2**33 - 2),
    # Beyond 32 bits, where the C helper wraps.
    ("FLOAT32", [2**31], None, None, 2**33, 2**33),
    ("FLOAT32", [3], [2**32 - 1], None, 4 * (2**33 - 1), 4 * (2**33 - 1)),
]
CHANNELS_LAST = {
    "DataType": "FLOAT16", "Sizes": [1, 3, 2, 2], "Strides": [12, 1, 6, 3],
    "TotalTensorSizeInBytes": 100,
}  # fmt: skip


def both(field: str, value: Any) -> dict[str, Any]:
    """A field of both tensors."""
    return {f"{IN}.{field}": value, f"{OUT}.{field}": value}


def ranked(level: str, rank: int) -> list[dict[str, Any]]:
    """The example with a rank, at a feature level in each spelling."""
    spellings = (level, f"DML_FEATURE_LEVEL_{level}", ALL_LEVELS[level])
    return [{"feature_level": spelling, **both("Sizes", [1] * rank)} for spelling in spellings]


def ranks(level: str, *, of_cast: bool = False) -> set[int]:
    """The ranks that a feature level takes."""
    return {4} if ALL_LEVELS[level] < 0x3000 + 0x100 * of_cast else set(range(1, 9))


def rounded_up(call: Call) -> int:
    """The length of a packed output."""
    return -(-call.output.element_count * call.output.dtype.itemsize // 4) * 4


ROUND = OperatorCases(
    example={
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "RoundingMode": "HALVES_TO_NEAREST_EVEN",
        },
    },
    operator=(tr.DirectMLRound("HALVES_TO_NEAREST_EVEN", feature_level="3_0"), "float32"),
    word="directml",
    dtypes={"FLOAT32": "float32", "FLOAT16": "float16"},
    modes={name: rounding for name, _, rounding, _ in MODES},
    dtype_at=TYPED,
    mode_at="desc.RoundingMode",
    defaulted={"desc.RoundingMode"},
    accepted=[
        ({"desc.RoundingMode": ABSENT}, {"rounding": Rounding.TIES_TO_EVEN}),
        *[
            (ranked(level, rank), {"input.shape": (1,) * rank})
            for level in LEVELS
            for rank in ranks(level)
        ],
        *[
            (
                spelled(f"DML_ROUNDING_MODE_{name}", number, at=["desc.RoundingMode"]),
                {"rounding": r},
            )
            for name, number, r, _ in MODES
        ],
        (spelled("DML_TENSOR_DATA_TYPE_FLOAT32", 1, at=TYPED), {"input.dtype.name": "float32"}),
        (spelled("DML_TENSOR_DATA_TYPE_FLOAT16", 2, at=TYPED), {"input.dtype.name": "float16"}),
        # Spellings mixed between input and output.
        ({f"{IN}.DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", f"{OUT}.DataType": 1}, IN_PLACE),
        (spelled("ELEMENT_WISE_ROUND", 99, at=["type"]), IN_PLACE),
        # DxDispatch's forms of a tensor.
        (
            [{"feature_level": "2_1", IN: tensor, OUT: SHORT} for tensor in (FULL, SHORT, FLAT)],
            {"input": lambda call: call.output, "input.byte_length": 24, **IN_PLACE},
        ),
        (
            spelled("OWNED_BY_DML", "DML_TENSOR_FLAG_OWNED_BY_DML", 1, at=[f"{IN}.Flags"]),
            IN_PLACE,
        ),
        *[
            (
                {
                    **dict.fromkeys(TYPED, dtype),
                    **both("Sizes", sizes),
                    f"{IN}.Strides": strides,
                    LENGTH: total,
                },
                {
                    "input.byte_length": length,
                    "shortest_input": shortest,
                    "output.byte_length": rounded_up,
                },
            )
            for dtype, sizes, strides, total, length, shortest in LENGTHS
        ],
        (
            {IN: {"DataType": "FLOAT16", "Sizes": [1, 3, 2, 2]}, OUT: CHANNELS_LAST},
            {"output.strides": (12, 1, 6, 3), "output.byte_length": 100, "is_in_place": False},
        ),
        (spelled(0, 4, 8, 16, 256, 2**31, at=[ALIGNMENT]), IN_PLACE),
        *[
            ({field: None}, IN_PLACE)
            for field in (
                f"{IN}.Strides",
                f"{IN}.DimensionCount",
                f"{IN}.Flags",
                f"{OUT}.Flags",
                LENGTH,
                ALIGNMENT,
            )
        ],
    ],
    refusals=[
        *[
            ("feature_level", level, "ELEMENT_WISE_ROUND was introduced in feature level 2_1")
            for level in ("1_0", "2_0", "DML_FEATURE_LEVEL_2_0", 0x1000, 0x2000)
        ],
        ("feature_level", "7_0", "a feature level takes 2_1, 3_0, 3_1, 4_0, "),
        ("feature_level", "12288", "takes 2_1"),
        (
            "type",
            "DML_OPERATOR_ELEMENT_WISE_ABS",
            "; directml: this dialect takes ELEMENT_WISE_ROUND, ELEMENT_WISE_FLOOR, ELEMENT_WISE_C",
        ),
        ("type", "DML_OPERATOR_DML_OPERATOR_ELEMENT_WISE_ROUND", "takes ELEMENT_WISE_ROUND"),
        ("desc.RoundingMode", "ties_to_even", "takes HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, "),
        ("desc.RoundingMode", 3, "got 3"),
        ("desc.RoundingMode", True, "got true"),
        ("desc.RoundingMode", "1", 'got "1"'),
        (OUT, None, "must be an object, got null"),
        (f"{IN}.Sizes[1]", [2, 0], "must be at least 1, got 0"),
        (f"{IN}.Sizes[0]", [2**32], "must be at most 4294967295, got 4294967296"),
        (f"{IN}.DimensionCount", 3, "must be 2, as Sizes has, got 3"),
        (f"{IN}.Strides", [1], "one entry per dimension, 2"),
        (f"{IN}.Strides[1]", [3, -1], "at least 0"),
        (f"{IN}.Strides[0]", [2**32, 1], "at most 4294967295"),
        (LENGTH, 20, "must be at least 24, the end of the last element"),
        *[(LENGTH, n, f"must be a multiple of 4, got {n}") for n in (13, 23, 25, 26, 27)],
        (LENGTH, 2**64, "at most 18446744073709551615"),
        (f"{OUT}.TotalTensorSizeInBytes", 20, "must be at least 24"),
        (ALIGNMENT, 12, "0 or a power of two of at least 4, "),
        (f"{OUT}.DataType", "FLOAT16", "directml: must equal the InputTensor's DataType"),
        (f"{OUT}.Sizes", [3, 2], "directml: must equal the InputTensor's Sizes"),
        (f"{OUT}.Strides", [0, 1], "must not overlap"),
        (f"{OUT}.Strides", [2, 1], "must not overlap"),
        (f"{OUT}.Flags", "OWNED_BY_DML", "directml: OWNED_BY_DML is for inputs only"),
        (f"{IN}.Flags", 2, "takes NONE, OWNED_BY_DML"),
        (f"{IN}.Type", "INVALID", "takes BUFFER"),
        (IN, [2, 3], "must be an object, got an array"),
        (f"{IN}[Desc]", {"Desc": None}, "must be an object, got null"),
        (f"{IN}[Sizes]", {"Type": 1, "Sizes": [2, 3], "Desc": ROW}, "unknown field"),
        (f"{IN}[Desc.Type]", {"Desc": {**ROW, "Type": 1}}, "unknown field"),
        (f"{IN}[Desc.Strides]", {"Desc": {**ROW, "Strides": [1]}}, "one entry per dimension"),
    ],
    broken=[
        *[
            (
                ranked(level, rank),
                {
                    f"{IN}.Sizes": Whole(
                        f"directml {level}: ELEMENT_WISE_ROUND takes "
                        f"{'exactly 4' if level == '2_1' else '1 to 8'} dimensions, got {rank}"
                    )
                },
            )
            for level in LEVELS
            for rank in {*range(11)} - ranks(level)
        ],
        (dict.fromkeys(TYPED, "INT32"), dict.fromkeys(TYPED, "ROUND takes FLOAT32, FLOAT16")),
        (
            {f"{IN}.DataType": "FLOAT64"},
            {
                f"{IN}.DataType": "got FLOAT64; directml 3_0: ELEMENT_WISE_ROUND takes FLOAT32, ",
                f"{OUT}.DataType": "directml: must equal the InputTensor's DataType",
            },
        ),
        *[
            (
                {**both("Sizes", [2**16, 2**16]), f"{IN}.Strides": strides},
                both("Sizes", "at most 2^32-1 elements, got 4294967296"),
            )
            for strides in (None, [0, 0])
        ],
        # Three halves: a length that is not rounded up.
        (
            {**dict.fromkeys(TYPED, "FLOAT16"), **both("Sizes", [3]), LENGTH: 4},
            {LENGTH: "at least 8, the end of the last element rounded"},
        ),
        (
            {f"{OUT}.Sizes": [6]},
            {f"{OUT}.DimensionCount": "must equal the InputTensor's DimensionCount, 2, got 1"},
        ),
        (
            {
                "feature_level": "2_1",
                f"{IN}.DimensionCount": 9,
                ALIGNMENT: 3,
                f"{OUT}.Flags": 1,
                f"{OUT}.Strides": [1],
            },
            {
                f"{IN}.Sizes": "exactly 4 dimensions, got 2",
                f"{IN}.DimensionCount": "must be 2",
                ALIGNMENT: "power of two",
                f"{OUT}.Flags": "for inputs only",
                f"{OUT}.Strides": "one entry per dimension",
            },
        ),
    ],
    refused=[
        (lambda: ANY("CEIL"), "desc.RoundingMode", "CEIL"),
        (lambda: ANY(feature_level="1_0"), "feature_level", "2_1"),
        (lambda: ANY(feature_level="2_1").prepare("float32", (2, 3)), f"{IN}.Sizes", "exactly 4"),
        (lambda: ANY().prepare("float32", (2, 0)), f"{IN}.Sizes.1", "at least 1"),
        (lambda: ANY().prepare("float16", (1 << 16, 1 << 16)), f"{IN}.Sizes", r"2\^32-1"),
        (
            lambda: LOOSE.BufferTensorDesc(DataType="FLOAT32", Sizes={2, 3}),
            "Sizes",
            "must be an array, got a Python set",
        ),
        (
            lambda: LOOSE.ElementWiseRoundDesc(InputTensor={**ROW, "Strides": [-1]}),
            "InputTensor.Strides.0",
            "must be at least 0, got -1",
        ),
    ],
    words={
        "directml:TOWARD_INFINITY": tr.DirectMLRound("TOWARD_INFINITY"),
        "directml:DML_ROUNDING_MODE_TOWARD_ZERO": tr.DirectMLRound("TOWARD_ZERO"),
        "directml:2": tr.DirectMLRound("TOWARD_INFINITY"),
        "directml:TOWARD_ZERO:2_1": tr.DirectMLRound("TOWARD_ZERO", "2_1"),
        "directml:1:12544": tr.DirectMLRound("TOWARD_ZERO", "3_1"),
        "directml:TOWARD_ZERO:DML_FEATURE_LEVEL_5_0": tr.DirectMLRound("TOWARD_ZERO", "5_0"),
    },
    wrong_words={
        "directml": "directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO)",
        "directml:up": 'got "up"; directml: ELEMENT_WISE_ROUND takes HALVES_TO_NEAREST_EVEN',
        "directml:TOWARD_ZERO:1_0": "introduced in feature level 2_1",
        "directml:1:2:3": "write directml:MODE",
        "directml:CAST": 'got "directml:CAST": it needs to, the target type',
    },
    spelling="directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO) "
    "or directml:MODE:FEATURE_LEVEL",
    optional=(f"{IN}.Strides", f"{IN}.DimensionCount", f"{IN}.Desc", LENGTH, ALIGNMENT),
    model=MODEL,
    examples={
        f"{level}, {mode}": Example(X, result, ("float32", "float16"), mode, level, shapes)
        for level, shapes in (("2_1", ((1, 1, 3, 3),)), ("3_0", ((9,), (3, 3))), ("6_4", ((9,),)))
        for mode, _, _, result in MODES
    },
)
