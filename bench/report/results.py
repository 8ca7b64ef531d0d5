"""The file of a run: JSON, a line for each row, and no more digits than figures are good for.

A section of rows that have the same members is a table: the names once, then a line of values for
each row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DIGITS = 5


def text(results: Mapping[str, Any]) -> str:
    """What is written."""
    sections = [f"{json.dumps(name)}: {_section(_short(value))}" for name, value in results.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def read(text: str) -> dict[str, Any]:
    """The results again, rows as objects."""
    return {name: _rows(value) for name, value in json.loads(text).items()}


def _section(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    columns = list(value[0])
    if any(list(row) != columns for row in value):
        return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
    lines = ",\n".join(json.dumps(list(row.values()), separators=(",", ":")) for row in value)
    return f'{{"columns": {json.dumps(columns)}, "rows": [\n{lines}\n]}}'


def _rows(value: Any) -> Any:
    if not isinstance(value, dict) or set(value) != {"columns", "rows"}:
        return value
    return [dict(zip(value["columns"], row, strict=True)) for row in value["rows"]]


def _short(value: Any) -> Any:
    """The same with rounded figures; whole ones stay."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case list():
            return [_short(part) for part in value]
        case dict():
            return {name: _short(part) for name, part in value.items()}
    return value
