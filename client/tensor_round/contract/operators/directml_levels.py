"""DirectML's operators, and the feature levels, which tell their ranks and data types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from .dialect import Version
from .model import OneOf, c_enumeration

#: DML_OPERATOR_TYPE.
OPERATORS = c_enumeration(
    "DML_OPERATOR_",
    {
        "ELEMENT_WISE_ROUND": 99,
        "ELEMENT_WISE_FLOOR": 12,
        "ELEMENT_WISE_CEIL": 7,
        "CAST": 61,
        "ELEMENT_WISE_QUANTIZE_LINEAR": 33,
        "ELEMENT_WISE_DEQUANTIZE_LINEAR": 34,
    },
)


def only(*names: str) -> OneOf:
    """One of these operators, in any spelling."""
    return OneOf(
        "directml: this form", {text: name for text, name in OPERATORS.items() if name in names}
    )


#: Without the C prefix, with it, or the C integer.
FeatureLevel = Literal[
    "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4",
    "DML_FEATURE_LEVEL_2_1", "DML_FEATURE_LEVEL_3_0", "DML_FEATURE_LEVEL_3_1",
    "DML_FEATURE_LEVEL_4_0", "DML_FEATURE_LEVEL_4_1", "DML_FEATURE_LEVEL_5_0",
    "DML_FEATURE_LEVEL_5_1", "DML_FEATURE_LEVEL_5_2", "DML_FEATURE_LEVEL_6_0",
    "DML_FEATURE_LEVEL_6_1", "DML_FEATURE_LEVEL_6_2", "DML_FEATURE_LEVEL_6_3",
    "DML_FEATURE_LEVEL_6_4",
    0x2100, 0x3000, 0x3100, 0x4000, 0x4100, 0x5000, 0x5100, 0x5200, 0x6000, 0x6100, 0x6200, 0x6300,
    0x6400,
]  # fmt: skip

#: Those of ROUND, and the two older ones.
AnyFeatureLevel = Literal[
    "1_0", "2_0", "DML_FEATURE_LEVEL_1_0", "DML_FEATURE_LEVEL_2_0", 0x1000, 0x2000, FeatureLevel
]


def numbers_of(*levels: str) -> dict[str, int]:
    """Feature levels, and their C integers: a hexadecimal digit each for major and minor."""
    return {level: int(level.replace("_", ""), 16) << 8 for level in levels}


LEVELS = numbers_of(*(level for level in get_args(FeatureLevel) if str(level)[1:2] == "_"))
ALL_LEVELS = {**numbers_of("1_0", "2_0"), **LEVELS}


LEVEL_PREFIX = "DML_FEATURE_LEVEL_"
#: A feature level in any spelling.
Level = Annotated[
    str | int, OneOf("directml: a feature level", c_enumeration(LEVEL_PREFIX, ALL_LEVELS))
]


def versions_by_level(
    operator: str,
    oldest_of_any_rank: str,
    types: Mapping[str, tuple[str, ...] | tuple[tuple[str, ...], ...]],
) -> dict[str, Version]:
    """The versions of an operator by feature level, from the oldest in ``types`` on.

    ``types`` are those of the operand, or of operand, scale and result.
    """
    found: dict[str, Version] = {}
    dtypes: Any = ()
    for level, number in ALL_LEVELS.items():
        dtypes = types.get(level, dtypes)
        if not dtypes:
            continue
        has_any_rank = number >= ALL_LEVELS[oldest_of_any_rank]
        found[level] = Version(
            name=level,
            title=f"directml {level}: {operator}",
            selected_by=(level,),
            dtypes=dtypes if isinstance(dtypes[0], str) else dtypes[0],
            scales=() if isinstance(dtypes[0], str) else dtypes[1],
            results=() if isinstance(dtypes[0], str) else dtypes[2],
            min_rank=1 if has_any_rank else 4,
            max_rank=8 if has_any_rank else 4,
            model_version=level,
            attributes={"feature_level": level},
        )
    return found
