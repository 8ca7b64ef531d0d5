"""The names that type checkers know are those that the tables have."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tensor_round import names
from tensor_round.dtypes import DTYPES
from tensor_round.operators import DIALECTS, directml, onnx
from tensor_round.rounding import STABLEHLO_OPS, Rounding

TABLES: dict[str, tuple[Any, set[str | int]]] = {
    "directions": (names.RoundingName, {rounding.value for rounding in Rounding}),
    "dtypes": (names.DTypeName, {dtype.name for dtype in DTYPES}),
    "opsets": (names.OnnxOpset, {n for version in onnx.VERSIONS for n in version.selected_by}),
    "openvino": (names.OpenVINOMode, set(DIALECTS["openvino"].modes)),
    "stablehlo": (names.StableHLOOp, {p + op for p in ("", "stablehlo.") for op in STABLEHLO_OPS}),
    "array_api": (names.ArrayAPIFunction, set(DIALECTS["array_api"].modes)),
    "directml": (names.DirectMLMode, set(directml.MODES.spellings)),
    "levels": (names.FeatureLevel, set(directml.LEVELS.spellings)),
}


@pytest.mark.parametrize(("literal", "table"), TABLES.values(), ids=TABLES)
def test_the_types_say_what_the_tables_say(literal: Any, table: set[str | int]) -> None:
    assert set(get_args(literal)) == table
