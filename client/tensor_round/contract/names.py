"""The accepted names as literal types, so that type checkers find wrong names.

They repeat the tables of dtypes and directions, because a literal type cannot be computed; a test
compares both. The dialects have theirs.
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
