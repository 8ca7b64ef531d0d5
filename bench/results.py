"""The file of a run: JSON, a line for each row, and no more digits than figures are good for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DIGITS = 5


def text(results: Mapping[str, Any]) -> str:
    """What is written."""
    sections = [f"{json.dumps(name)}: {section(short(value))}" for name, value in results.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def section(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"


def short(value: Any) -> Any:
    """The same with rounded figures; whole ones stay."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case list():
            return [short(part) for part in value]
        case dict():
            return {name: short(part) for name, part in value.items()}
    return value
