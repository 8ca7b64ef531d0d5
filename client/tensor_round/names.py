"""The accepted names as literal types, so that type checkers find wrong names.

They repeat the tables of dtypes, directions and dialects, because a literal type cannot be
computed; a test compares both.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

RoundingName = Literal[
    "ties_to_even", "ties_to_away", "toward_zero", "toward_positive", "toward_negative"
]

DTypeName = Literal[
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

#: A canonical name, or a NumPy dtype in either byte order.
AnyDType = DTypeName | np.dtype[Any] | type[Any]

OnnxOpset = Literal[11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]

OpenVINOMode = Literal["half_to_even", "half_away_from_zero"]

#: With or without the prefix of its dialect in MLIR.
StableHLOOp = Literal[
    "round_nearest_even",
    "round_nearest_afz",
    "stablehlo.round_nearest_even",
    "stablehlo.round_nearest_afz",
]

ArrayAPIFunction = Literal["round", "trunc", "ceil", "floor"]

#: Without the C prefix, with it, or the C integer.
DirectMLMode = Literal[
    "HALVES_TO_NEAREST_EVEN",
    "TOWARD_ZERO",
    "TOWARD_INFINITY",
    "DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN",
    "DML_ROUNDING_MODE_TOWARD_ZERO",
    "DML_ROUNDING_MODE_TOWARD_INFINITY",
    0,
    1,
    2,
]

#: Without the C prefix, with it, or the C integer.
FeatureLevel = Literal[
    "2_1",
    "3_0",
    "3_1",
    "4_0",
    "4_1",
    "5_0",
    "5_1",
    "5_2",
    "6_0",
    "6_1",
    "6_2",
    "6_3",
    "6_4",
    "DML_FEATURE_LEVEL_2_1",
    "DML_FEATURE_LEVEL_3_0",
    "DML_FEATURE_LEVEL_3_1",
    "DML_FEATURE_LEVEL_4_0",
    "DML_FEATURE_LEVEL_4_1",
    "DML_FEATURE_LEVEL_5_0",
    "DML_FEATURE_LEVEL_5_1",
    "DML_FEATURE_LEVEL_5_2",
    "DML_FEATURE_LEVEL_6_0",
    "DML_FEATURE_LEVEL_6_1",
    "DML_FEATURE_LEVEL_6_2",
    "DML_FEATURE_LEVEL_6_3",
    "DML_FEATURE_LEVEL_6_4",
    0x2100,
    0x3000,
    0x3100,
    0x4000,
    0x4100,
    0x5000,
    0x5100,
    0x5200,
    0x6000,
    0x6100,
    0x6200,
    0x6300,
    0x6400,
]
