"""What the service takes, as ``GET /operators`` says it."""

from __future__ import annotations

from tensor_round import operators
from tensor_round.dtypes import DTYPES
from tensor_round.rounding import Rounding

from .documents import Catalog, Limits


def catalog(limits: Limits) -> Catalog:
    """Dialects, directions, dtypes and limits."""
    return {
        "dialects": operators.catalog(),
        "roundings": [rounding.value for rounding in Rounding],
        "dtypes": [dtype.name for dtype in DTYPES],
        "limits": limits,
    }
