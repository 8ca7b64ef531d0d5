"""The dialects, one file each: descriptors, rules, the operator as an object, and its tables.

A new dialect is its file and its line below, which exports what is in the file's ``__all__``. The
order of the lines is that of every list of dialects.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..dialect import Dialect

# isort: off
from .ieee754 import *
from .onnx import *
from .openvino import *
from .directml import *
from .webnn import *
from .stablehlo import *
from .array_api import *
from .mlir import *
# isort: on

#: The modules above: their imports have bound them here, too.
MODULES: tuple[ModuleType, ...] = tuple(
    value for value in tuple(globals().values()) if hasattr(value, "DIALECT")
)
DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in MODULES}

if not TYPE_CHECKING:
    # Type checkers follow the stars.
    __all__ = [name for module in MODULES for name in module.__all__]
