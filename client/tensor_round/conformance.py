"""Another name of :mod:`tensor_round_verify`, which is imported when a name is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensor_round_verify import *


def __getattr__(name: str) -> Any:
    # Not its __path__: its modules would be imported a second time, under this name.
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tensor_round_verify"), name)
