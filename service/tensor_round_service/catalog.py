"""The catalog of ``GET /operators``: dialects, roundings, dtypes and limits."""

from __future__ import annotations

from tensor_round.contract import operators
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.rounding import Rounding

from .documents import Catalog, Limits


def catalog(limits: Limits) -> Catalog:
    """The catalog, with these limits."""
    return {
        "dialects": operators.catalog(),
        "roundings": [rounding.value for rounding in Rounding],
        "dtypes": [dtype.name for dtype in DTYPES],
        "limits": limits,
    }
