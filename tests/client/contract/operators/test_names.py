"""The names that type checkers know are those that the tables have."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tensor_round.contract.dtypes import DTYPES, DTypeName
from tensor_round.contract.rounding import Rounding, RoundingName

TABLES: dict[str, tuple[Any, set[str]]] = {
    "directions": (RoundingName, {rounding.value for rounding in Rounding}),
    "dtypes": (DTypeName, {dtype.name for dtype in DTYPES}),
}


@pytest.mark.parametrize(("literal", "table"), TABLES.values(), ids=TABLES)
def test_the_types_say_what_the_tables_say(literal: Any, table: set[str]) -> None:
    assert set(get_args(literal)) == table
