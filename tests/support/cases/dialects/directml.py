"""``directml``: spellings, feature levels, how its call is laid out, and its many rules."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, DialectCases, Document, Example, Model, Whole
from tensor_round.contract.rounding import Rounding

LEVELS = {
    "2_1": 0x2100, "3_0": 0x3000, "3_1": 0x3100, "4_0": 0x4000, "4_1": 0x4100, "5_0": 0x5000,
    "5_1": 0x5100, "5_2": 0x5200, "6_0": 0x6000, "6_1": 0x6100, "6_2": 0x6200, "6_3": 0x6300,
    "6_4": 0x6400,
}  # fmt: skip
#: Names, C integers, directions, and the values of DirectML's documentation.
X = (-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5)
MODES: list[tuple[Any, int, Rounding, tuple[float, ...]]] = [
    ("HALVES_TO_NEAREST_EVEN", 0, Rounding.TIES_TO_EVEN, (-2, -2, -2, -1, 0, 1, 2, 2, 2)),
    ("TOWARD_ZERO", 1, Rounding.TOWARD_ZERO, (-2, -1, -1, -1, 0, 1, 1, 1, 2)),
    ("TOWARD_INFINITY", 2, Rounding.TIES_TO_AWAY, (-3, -2, -2, -1, 0, 1, 2, 2, 3)),
]
MODEL = Model(
    *("directml_element_wise_round", "InputTensor", "OutputTensor", "rounding_mode"),
    {level: ("FP32,FP16", "4-4" if level == "2_1" else "1-8") for level in LEVELS},
)
IN, OUT = "desc.InputTensor", "desc.OutputTensor"
#: Called as by someone whom no type checker stops.
ANY: Any = tr.DirectMLRound
IN_PLACE = {"is_in_place": True}

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
LENGTHS: dict[str, tuple[str, list[int], list[int] | None, int | None, int, int]] = {
    "three halves": ("FLOAT16", [3], None, None, 8, 6),
    "two halves": ("FLOAT16", [2], None, None, 4, 4),
    "one half": ("FLOAT16", [1], None, None, 4, 2),
    "three halves with length": ("FLOAT16", [3], None, 8, 8, 8),
    "three halves with room": ("FLOAT16", [3], None, 12, 12, 12),
    "floats need no rounding": ("FLOAT32", [3], None, None, 12, 12),
    "rows apart": ("FLOAT32", [2, 3], [5, 1], None, 32, 32),
    "rows of halves apart": ("FLOAT16", [2, 3], [4, 1], None, 16, 14),
    "channels last": ("FLOAT32", [1, 3, 2, 2], [12, 1, 6, 3], None, 48, 48),
    "a broadcast": ("FLOAT16", [5, 3], [0, 1], None, 8, 6),
    "all one element": ("FLOAT32", [2**16, 2**15], [0, 0], None, 4, 4),
    "2^32-1 elements": ("FLOAT16", [2**32 - 1], None, None, 2**33, 2**33 - 2),
    "beyond 32 bits, where the C helper wraps": ("FLOAT32", [2**31], None, None, 2**33, 2**33),
    "a step of 2^32-1": ("FLOAT32", [3], [2**32 - 1], None, 4 * (2**33 - 1), 4 * (2**33 - 1)),
}
CHANNELS_LAST = {
    "DataType": "FLOAT16", "Sizes": [1, 3, 2, 2], "Strides": [12, 1, 6, 3],
    "TotalTensorSizeInBytes": 100,
}  # fmt: skip


def both(field: str, value: Any) -> dict[str, Any]:
    """A field of both tensors."""
    return {f"{IN}.{field}": value, f"{OUT}.{field}": value}


def ranked(level: str, rank: int) -> list[dict[str, Any]]:
    """The example with a rank, at a feature level in each spelling."""
    spellings = (level, f"DML_FEATURE_LEVEL_{level}", LEVELS[level])
    return [{"feature_level": spelling, **both("Sizes", [1] * rank)} for spelling in spellings]


def ranks(level: str) -> set[int]:
    """The ranks that a feature level takes."""
    return {4} if level == "2_1" else set(range(1, 9))


def rounded_up(elements: int, itemsize: int) -> int:
    """The length of a packed tensor."""
    return -(-elements * itemsize // 4) * 4


CASES = DialectCases(
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
    made=tr.DirectMLDescriptor(
        feature_level="3_0",
        type="DML_OPERATOR_ELEMENT_WISE_ROUND",
        desc=tr.ElementWiseRoundDesc(
            InputTensor=tr.BufferTensorDesc(DataType="FLOAT32", Sizes=[2, 3]),
            OutputTensor=tr.BufferTensorDesc(DataType="FLOAT32", Sizes=[2, 3]),
            RoundingMode="HALVES_TO_NEAREST_EVEN",
        ),
    ),
    operator=(tr.DirectMLRound("HALVES_TO_NEAREST_EVEN", feature_level="3_0"), "float32"),
    dtypes={"FLOAT32": "float32", "FLOAT16": "float16"},
    modes={name: rounding for name, _, rounding, _ in MODES},
    accepted={
        "no mode, which is the default": (
            {"desc.RoundingMode": ABSENT},
            {"rounding": Rounding.TIES_TO_EVEN},
        ),
        **{
            f"{level} of rank {rank}": (ranked(level, rank), {"input.shape": (1,) * rank})
            for level in LEVELS
            for rank in range(11)
            if rank in ranks(level)
        },
        **{
            f"{name} in every spelling": (
                [
                    {"desc.RoundingMode": spelling}
                    for spelling in (name, f"DML_ROUNDING_MODE_{name}", number)
                ],
                {"rounding": rounding},
            )
            for name, number, rounding, _ in MODES
        },
        **{
            f"{name} in every spelling": (
                [
                    both("DataType", spelling)
                    for spelling in (name, f"DML_TENSOR_DATA_TYPE_{name}", number)
                ],
                {"input.dtype.name": dtype},
            )
            for name, number, dtype in (("FLOAT32", 1, "float32"), ("FLOAT16", 2, "float16"))
        },
        "the operator in every spelling": (
            [
                {"type": spelling}
                for spelling in ("ELEMENT_WISE_ROUND", "DML_OPERATOR_ELEMENT_WISE_ROUND", 99)
            ],
            IN_PLACE,
        ),
        "spellings mixed between input and output": (
            {f"{IN}.DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", f"{OUT}.DataType": 1},
            IN_PLACE,
        ),
        "DxDispatch's forms of a tensor": (
            [{"feature_level": "2_1", IN: tensor, OUT: SHORT} for tensor in (FULL, SHORT, FLAT)],
            {
                "input": lambda call: call.output,
                "input.byte_length": 24,
                "is_in_place": True,
            },
        ),
        "an input owned by DirectML": (
            [
                {f"{IN}.Flags": spelling}
                for spelling in ("OWNED_BY_DML", "DML_TENSOR_FLAG_OWNED_BY_DML", 1)
            ],
            IN_PLACE,
        ),
        **{
            name: (
                {
                    IN: {
                        "DataType": dtype,
                        "Sizes": sizes,
                        "Strides": strides,
                        "TotalTensorSizeInBytes": total,
                    },
                    OUT: {"DataType": dtype, "Sizes": sizes},
                },
                {
                    "input.byte_length": length,
                    "shortest_input": shortest,
                    "output.byte_length": lambda call: rounded_up(
                        call.output.element_count, call.output.dtype.itemsize
                    ),
                },
            )
            for name, (dtype, sizes, strides, total, length, shortest) in LENGTHS.items()
        },
        "an output with strides and a length": (
            {IN: {"DataType": "FLOAT16", "Sizes": [1, 3, 2, 2]}, OUT: CHANNELS_LAST},
            {"output.strides": (12, 1, 6, 3), "output.byte_length": 100, "is_in_place": False},
        ),
        **{
            f"an alignment of {alignment}": (
                {f"{IN}.GuaranteedBaseOffsetAlignment": alignment},
                IN_PLACE,
            )
            for alignment in (0, 4, 8, 16, 256, 2**31)
        },
        **{
            f"null {field}": ({f"{IN}.{field}": None}, IN_PLACE)
            for field in (
                "Strides",
                "DimensionCount",
                "TotalTensorSizeInBytes",
                "GuaranteedBaseOffsetAlignment",
            )
        },
    },
    refusals={
        **{
            f"{level} of rank {rank}": (
                ranked(level, rank),
                {
                    f"{IN}.Sizes": Whole(
                        f"directml {level}: ELEMENT_WISE_ROUND takes "
                        f"{'exactly 4' if level == '2_1' else '1 to 8'} dimensions, got {rank}"
                    )
                },
            )
            for level in LEVELS
            for rank in range(11)
            if rank not in ranks(level)
        },
        **{
            f"level {level}, without Round": (
                {"feature_level": level},
                {"feature_level": "ELEMENT_WISE_ROUND was introduced in feature level 2_1"},
            )
            for level in ("1_0", "2_0", "DML_FEATURE_LEVEL_2_0", 0x1000, 0x2000)
        },
        "an unknown level": (
            {"feature_level": "7_0"},
            {"feature_level": "a feature level takes 2_1, 3_0, 3_1, 4_0, "},
        ),
        "a level as text of a number": ({"feature_level": "12288"}, {"feature_level": "takes 2_1"}),
        "a level with a dot": ({"feature_level": "3.0"}, {"feature_level": "takes 2_1"}),
        "an unknown integer": ({"feature_level": 3}, {"feature_level": "got 3"}),
        "no level": ({"feature_level": ABSENT}, {"feature_level": "is required"}),
        "CEIL": (
            {"type": "DML_OPERATOR_ELEMENT_WISE_CEIL"},
            {"type": "takes ELEMENT_WISE_ROUND, got"},
        ),
        "another operator's integer": ({"type": 7}, {"type": "got 7"}),
        "a doubled prefix": (
            {"type": "DML_OPERATOR_DML_OPERATOR_ELEMENT_WISE_ROUND"},
            {"type": "takes ELEMENT_WISE_ROUND"},
        ),
        "an unknown mode": (
            {"desc.RoundingMode": "ties_to_even"},
            {"desc.RoundingMode": f"takes {', '.join(sorted(mode[0] for mode in MODES))}, got"},
        ),
        "mode 3": ({"desc.RoundingMode": 3}, {"desc.RoundingMode": "got 3"}),
        "mode true, which equals 1": (
            {"desc.RoundingMode": True},
            {"desc.RoundingMode": "got true"},
        ),
        "mode 1.0": ({"desc.RoundingMode": 1.0}, {"desc.RoundingMode": "got 1.0"}),
        "mode as text": ({"desc.RoundingMode": "1"}, {"desc.RoundingMode": 'got "1"'}),
        "a null mode": ({"desc.RoundingMode": None}, {"desc.RoundingMode": "got null"}),
        "integers": (
            {f"{IN}.DataType": "INT32", f"{OUT}.DataType": "INT32"},
            {
                f"{IN}.DataType": "ROUND takes FLOAT32, FLOAT16, got",
                f"{OUT}.DataType": "takes FLOAT32",
            },
        ),
        "doubles": ({f"{IN}.DataType": "FLOAT64"}, {f"{IN}.DataType": "takes FLOAT32, FLOAT16"}),
        "unknown, which DirectML has": ({f"{IN}.DataType": 0}, {f"{IN}.DataType": "got 0"}),
        "no output": ({OUT: ABSENT}, {OUT: "is required"}),
        "a null output": ({OUT: None}, {OUT: "must be an object, got null"}),
        "no sizes": ({f"{IN}.Sizes": ABSENT}, {f"{IN}.Sizes": "is required"}),
        "an empty tensor": (
            {f"{IN}.Sizes": [2, 0]},
            {f"{IN}.Sizes.1": "must be at least 1, got 0"},
        ),
        "a size beyond 32 bits": (
            {f"{IN}.Sizes": [2**32]},
            {f"{IN}.Sizes.0": "must be at most 4294967295, got 4294967296"},
        ),
        "rank 3 in 2_1": (
            {"feature_level": "2_1", f"{IN}.Sizes": [1, 2, 3], f"{OUT}.Sizes": [1, 2, 3]},
            {f"{IN}.Sizes": "directml 2_1: ELEMENT_WISE_ROUND takes exactly 4 dimensions, got 3"},
        ),
        "2^32 elements": (
            {f"{IN}.Sizes": [2**16, 2**16], f"{OUT}.Sizes": [2**16, 2**16]},
            {side + ".Sizes": "at most 2^32-1 elements, got 4294967296" for side in (IN, OUT)},
        ),
        "2^32 elements by broadcast": (
            {
                f"{IN}.Sizes": [2**16, 2**16],
                f"{IN}.Strides": [0, 0],
                f"{OUT}.Sizes": [2**16, 2**16],
            },
            {side + ".Sizes": "at most 2^32-1 elements" for side in (IN, OUT)},
        ),
        "another dimension count": (
            {f"{IN}.DimensionCount": 3},
            {f"{IN}.DimensionCount": "must be 2, as Sizes has, got 3"},
        ),
        "a stride short": ({f"{IN}.Strides": [1]}, {f"{IN}.Strides": "one entry per dimension, 2"}),
        "no strides at all": (
            {f"{IN}.Strides": []},
            {f"{IN}.Strides": "one entry per dimension, 2"},
        ),
        "a negative stride": ({f"{IN}.Strides": [3, -1]}, {f"{IN}.Strides.1": "at least 0"}),
        "a stride beyond 32 bits": (
            {f"{IN}.Strides": [2**32, 1]},
            {f"{IN}.Strides.0": "at most 4294967295"},
        ),
        "a length too short": (
            {f"{IN}.TotalTensorSizeInBytes": 20},
            {f"{IN}.TotalTensorSizeInBytes": "must be at least 24, the end of the last element"},
        ),
        **{
            f"a length of {length}, no multiple of 4": (
                {f"{IN}.TotalTensorSizeInBytes": length},
                {f"{IN}.TotalTensorSizeInBytes": f"must be a multiple of 4, got {length}"},
            )
            for length in (13, 23, 25, 26, 27)
        },
        "a length not rounded up": (
            {
                side + field: value
                for side in (IN, OUT)
                for field, value in ((".DataType", 2), (".Sizes", [3]))
            }
            | {f"{IN}.TotalTensorSizeInBytes": 4},
            {f"{IN}.TotalTensorSizeInBytes": "at least 8, the end of the last element rounded"},
        ),
        "a length of 0": (
            {f"{IN}.TotalTensorSizeInBytes": 0},
            {f"{IN}.TotalTensorSizeInBytes": "24"},
        ),
        "a length beyond 64 bits": (
            {f"{IN}.TotalTensorSizeInBytes": 2**64},
            {f"{IN}.TotalTensorSizeInBytes": "at most 18446744073709551615"},
        ),
        "an output too short": (
            {f"{OUT}.TotalTensorSizeInBytes": 20},
            {f"{OUT}.TotalTensorSizeInBytes": "must be at least 24"},
        ),
        "an alignment of 12": (
            {f"{IN}.GuaranteedBaseOffsetAlignment": 12},
            {f"{IN}.GuaranteedBaseOffsetAlignment": "0 or a power of two of at least 4, "},
        ),
        "an alignment below the element": (
            {f"{IN}.GuaranteedBaseOffsetAlignment": 2},
            {f"{IN}.GuaranteedBaseOffsetAlignment": "at least 4"},
        ),
        "an output of another type": (
            {f"{OUT}.DataType": "FLOAT16"},
            {f"{OUT}.DataType": "directml: must equal the InputTensor's DataType"},
        ),
        "an output of other sizes": (
            {f"{OUT}.Sizes": [3, 2]},
            {f"{OUT}.Sizes": "directml: must equal the InputTensor's Sizes"},
        ),
        "an output of other rank": (
            {f"{OUT}.Sizes": [6]},
            {f"{OUT}.DimensionCount": "must equal the InputTensor's DimensionCount, 2, got 1"},
        ),
        "a broadcast output": ({f"{OUT}.Strides": [0, 1]}, {f"{OUT}.Strides": "must not overlap"}),
        "an overlapping output": (
            {f"{OUT}.Strides": [2, 1]},
            {f"{OUT}.Strides": "must not overlap"},
        ),
        "an output owned by DirectML": (
            {f"{OUT}.Flags": "OWNED_BY_DML"},
            {f"{OUT}.Flags": "directml: OWNED_BY_DML is for inputs only"},
        ),
        "unknown flags": ({f"{IN}.Flags": 2}, {f"{IN}.Flags": "takes NONE, OWNED_BY_DML, got 2"}),
        "flags in a list": ({f"{IN}.Flags": ["NONE"]}, {f"{IN}.Flags": "got an array"}),
        "another tensor type": ({f"{IN}.Type": "INVALID"}, {f"{IN}.Type": "takes BUFFER, got"}),
        "tensor type 0": ({f"{IN}.Type": 0}, {f"{IN}.Type": "takes BUFFER, got 0"}),
        "an unknown field": ({f"{IN}.sizes": [2, 3]}, {f"{IN}.sizes": "unknown field"}),
        "an unknown field of desc": ({"desc.ScaleBias": None}, {"desc.ScaleBias": "unknown field"}),
        "DxDispatch's compile type": (
            {"dmlCompileType": "DmlCompileOp"},
            {"dmlCompileType": "unknown field"},
        ),
        "the struct's own names": ({"Desc": {}}, {"Desc": "unknown field"}),
        "both forms at once": (
            {IN: {"Type": 1, "Sizes": [2, 3], "Desc": {"DataType": 1, "Sizes": [2, 3]}}},
            {f"{IN}.Sizes": "unknown field"},
        ),
        "a Type within Desc": (
            {IN: {"Desc": {"Type": 1, "DataType": 1, "Sizes": [2, 3]}}},
            {f"{IN}.Desc.Type": "unknown field"},
        ),
        "faults within Desc": (
            {IN: {"Desc": {"DataType": 1, "Sizes": [2, 3], "Strides": [1]}}},
            {f"{IN}.Desc.Strides": "one entry per dimension"},
        ),
        "a null Desc": ({IN: {"Desc": None}}, {f"{IN}.Desc": "must be an object, got null"}),
        "a tensor as list": ({IN: [2, 3]}, {IN: "must be an object, got an array"}),
        "rules broken in many places": (
            {
                "feature_level": "2_1",
                f"{IN}.DimensionCount": 9,
                f"{IN}.GuaranteedBaseOffsetAlignment": 3,
                f"{OUT}.Flags": 1,
                f"{OUT}.Strides": [1],
            },
            {
                f"{IN}.Sizes": "exactly 4 dimensions, got 2",
                f"{IN}.DimensionCount": "must be 2",
                f"{IN}.GuaranteedBaseOffsetAlignment": "power of two",
                f"{OUT}.Flags": "for inputs only",
                f"{OUT}.Strides": "one entry per dimension",
            },
        ),
    },
    refused={
        "mode": (lambda: ANY("CEIL"), ("desc", "RoundingMode"), "CEIL"),
        "level": (lambda: ANY(feature_level="1_0"), ("feature_level",), "2_1"),
        "rank": (
            lambda: tr.DirectMLRound(feature_level="2_1").prepare("float32", (2, 3)),
            ("desc", "InputTensor", "Sizes"),
            "exactly 4",
        ),
        "empty": (
            lambda: tr.DirectMLRound().prepare("float32", (2, 0)),
            ("desc", "InputTensor", "Sizes", 1),
            "at least 1",
        ),
        "vast": (
            lambda: tr.DirectMLRound().prepare("float16", (1 << 16, 1 << 16)),
            ("desc", "InputTensor", "Sizes"),
            r"2\^32-1",
        ),
    },
    words={
        "directml:TOWARD_INFINITY": tr.DirectMLRound("TOWARD_INFINITY"),
        "directml:DML_ROUNDING_MODE_TOWARD_ZERO": tr.DirectMLRound("TOWARD_ZERO"),
        "directml:2": tr.DirectMLRound("TOWARD_INFINITY"),
        "directml:TOWARD_ZERO:2_1": tr.DirectMLRound("TOWARD_ZERO", "2_1"),
        "directml:TOWARD_ZERO:DML_FEATURE_LEVEL_5_0": tr.DirectMLRound("TOWARD_ZERO", "5_0"),
    },
    wrong_words={
        "directml": "directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO)",
        "directml:up": 'takes HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO, got "up"',
        "directml:TOWARD_ZERO:1_0": "introduced in feature level 2_1",
        "directml:1:2:3": "write directml:MODE",
    },
    spelling="directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO) "
    "or directml:MODE:FEATURE_LEVEL",
    fields=(
        *("dialect", "feature_level", "type", "desc", "desc.RoundingMode", "desc.InputTensor"),
        *("desc.InputTensor.Sizes", "desc.InputTensor.Strides", "desc.InputTensor.DataType"),
        *("desc.InputTensor.DimensionCount", "desc.InputTensor.TotalTensorSizeInBytes"),
        *("desc.InputTensor.Desc", "desc.OutputTensor.Sizes", "desc.OutputTensor.Strides"),
        "desc.OutputTensor.GuaranteedBaseOffsetAlignment",
    ),
    model=MODEL,
    examples={
        f"{level}, {mode}": Example(
            ANY(rounding_mode=mode, feature_level=level),
            X,
            result,
            ("float32", "float16"),
            MODEL,
            level,
            mode,
            shapes,
        )
        for level, shapes in (("2_1", ((1, 1, 3, 3),)), ("3_0", ((9,), (3, 3))), ("6_4", ((9,),)))
        for mode, _, _, result in MODES
    },
)
