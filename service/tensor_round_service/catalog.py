"""What the service takes, as ``GET /operators`` says it."""

from __future__ import annotations

from typing import Any

from tensor_round import operators
from tensor_round.dtypes import DTYPES
from tensor_round.rounding import Rounding


def catalog(max_tensor_bytes: int) -> dict[str, Any]:
    """Dialects, directions, dtypes and limits, as plain JSON data."""
    return {
        "dialects": operators.catalog(),
        "roundings": [rounding.value for rounding in Rounding],
        "dtypes": [dtype.name for dtype in DTYPES],
        "limits": {"max_tensor_bytes": max_tensor_bytes},
    }
