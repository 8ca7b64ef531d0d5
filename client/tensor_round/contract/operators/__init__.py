"""Operator descriptors: JSON documents that name a rounding operator and its tensors' layouts.

Each dialect has the names and rules of its specification. Each descriptor resolves to a
:class:`~tensor_round.contract.call.RoundCall`. A new dialect is a file in :mod:`.dialects`, and a
line in :mod:`.registry`, which is imported when one of its names is used: pydantic takes longer to
import than all the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .operator import PreparedDescriptor, RoundOperator, as_operator, prepare_descriptor

if TYPE_CHECKING:
    from .registry import (
        DIALECTS,
        Descriptor,
        catalog,
        operator_of,
        parse,
        refuse_oversized,
        resolve_json,
        validate,
    )
else:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(import_module(".registry", __name__), name))


__all__ = [
    "DIALECTS",
    "Descriptor",
    "PreparedDescriptor",
    "RoundOperator",
    "as_operator",
    "catalog",
    "operator_of",
    "parse",
    "prepare_descriptor",
    "refuse_oversized",
    "resolve_json",
    "validate",
]
