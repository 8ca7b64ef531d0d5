"""pydantic's validation errors as the faults of a refusal, with this project's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..errors import Fault
from ..quoting import shown, shown_key

#: Further faults are counted, not listed, so that a response stays small.
LISTED_FAULTS = 32

#: Tags of unions begin with this character, which no field name does.
UNION_TAG = "|"

_MESSAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "missing": lambda context: "is required",
    "extra_forbidden": lambda context: "unknown field",
    "model_type": lambda context: "must be an object",
    "list_type": lambda context: "must be an array",
    "int_type": lambda context: "must be an integer",
    "string_type": lambda context: "must be a string",
    "too_long": lambda context: f"must have at most {context['max_length']} dimensions",
    "greater_than_equal": lambda context: f"must be at least {context['ge']}",
    "less_than_equal": lambda context: f"must be at most {context['le']}",
    "less_than": lambda context: f"must be less than {context['lt']}",
    "string_unicode": lambda context: "has a field name that is no Unicode text",
    # An error of this package; pydantic's own message would begin with its class.
    "value_error": lambda context: str(context["error"]),
    "literal_error": lambda context: f"must be {context['expected']}",
}
_WITHOUT_INPUT = frozenset({"missing", "extra_forbidden", "string_unicode", "value_error"})


def faults_of(error: ValidationError) -> list[Fault]:
    """The faults of a document, at most 33 of them; long values are shortened."""
    findings = error.errors(include_url=False)
    faults = [
        Fault(_loc(finding["loc"]), _message(finding)) for finding in findings[:LISTED_FAULTS]
    ]
    if len(findings) > LISTED_FAULTS:
        faults.append(Fault((), f"and {len(findings) - LISTED_FAULTS} more faults"))
    return faults


def _message(finding: ErrorDetails) -> str:
    kind, context = finding["type"], finding.get("ctx", {})
    if kind not in _MESSAGES:
        return finding["msg"]
    rule = _MESSAGES[kind](context)
    if kind in _WITHOUT_INPUT:
        return rule
    if kind == "too_long":
        return f"{rule}, got {context['actual_length']}"
    return f"{rule}, got {shown(finding['input'])}"


def _loc(parts: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(
        shown_key(part) if isinstance(part, str) else part
        for part in parts
        if not (isinstance(part, str) and part.startswith(UNION_TAG))
    )
