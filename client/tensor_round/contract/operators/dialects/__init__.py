"""The dialects, one file each: descriptors, rules, the operator as an object, and its tables.

Their names are also here; the first that is used imports all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..registry import *
    from ..registry import DIALECTS as DIALECTS
    from ..registry import MODULES as MODULES
else:

    def __getattr__(name: str) -> Any:
        if name in ("__all__", "DIALECTS", "MODULES") or not name.startswith("_"):
            registry = import_module("..registry", __name__)
            if name in ("__all__", "DIALECTS", "MODULES", *registry.__all__):
                return globals().setdefault(name, getattr(registry, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
