"""The dialects, one line each, and what is derived from all of them: the reader of descriptors.

A new dialect is its file and its line below, which exports what is in the file's ``__all__``. The
order of the lines is that of every list of dialects.
"""

from __future__ import annotations

import sys
from functools import reduce
from operator import or_
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..call import RoundCall
from ..errors import InvalidDescriptor, MalformedJSON
from ..quoting import not_accepted, shown
from ..wire import strictjson
from .dialect import Dialect
from .model import OperatorDescriptor
from .operator import RoundOperator

# isort: off
from .dialects.ieee754 import *
from .dialects.onnx import *
from .dialects.openvino import *
from .dialects.directml import *
from .dialects.webnn import *
from .dialects.stablehlo import *
from .dialects.array_api import *
from .dialects.mlir import *
# isort: on

#: The modules above, each of which exports one descriptor of an operator.
MODULES: tuple[ModuleType, ...] = tuple(
    sys.modules[value.__module__]
    for value in tuple(globals().values())
    if isinstance(value, type)
    and issubclass(value, OperatorDescriptor)
    and value is not OperatorDescriptor
)
DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in MODULES}

if not TYPE_CHECKING:
    # Type checkers follow the stars.
    __all__ = [name for module in MODULES for name in module.__all__]

#: The operators in one word, for type checkers; a test compares them with the tables.
OperatorWord = Literal[
    "onnx", "openvino", "openvino:half_to_even", "openvino:half_away_from_zero",
    "directml:HALVES_TO_NEAREST_EVEN", "directml:TOWARD_INFINITY", "directml:TOWARD_ZERO",
    "webnn", "stablehlo:round_nearest_even", "stablehlo:round_nearest_afz",
    "array_api:round", "array_api:trunc", "array_api:ceil", "array_api:floor",
    "mlir:math.roundeven", "mlir:math.round", "mlir:math.trunc", "mlir:math.ceil",
    "mlir:math.floor",
]  # fmt: skip

if TYPE_CHECKING:
    Descriptor = OperatorDescriptor
else:
    #: A descriptor of any dialect, as schemas document it. To read one, use :func:`validate`.
    Descriptor = Annotated[
        reduce(or_, [dialect.descriptor for dialect in DIALECTS.values()]),
        Field(discriminator="dialect"),
    ]

#: The deepest nesting of objects and arrays; valid descriptors have at most five levels.
_DEPTH_LIMIT = 16

#: Values in a descriptor. The longest valid one has about 170. A larger document is refused before
#: each of its values becomes a fault.
_VALUE_LIMIT = 512


def validate(document: object) -> Descriptor:
    """The descriptor in a parsed JSON document.

    Raises :class:`InvalidDescriptor` with every wrong field, type and name. Rules on several
    fields (rank, agreement of input and output, overlap) are checked by ``resolve``. A document
    with ``operator`` is in the short form, see :func:`.text.read_short`.
    """
    if not isinstance(document, dict):
        rule = f"a descriptor must be an object with dialect or operator, got {shown(document)}"
        raise InvalidDescriptor.at((), rule)
    if "operator" in document:
        from .text import read_short  # it is made of the dialects, too

        refuse_oversized(document)
        return read_short(document)
    if "dialect" not in document:
        raise InvalidDescriptor.at(("dialect",), f"is required: one of {', '.join(DIALECTS)}")
    name = document["dialect"]
    if not isinstance(name, str) or name not in DIALECTS:
        raise InvalidDescriptor.at(("dialect",), not_accepted(name, DIALECTS))
    refuse_oversized(document)
    return DIALECTS[name].descriptor.read(document)


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor can have."""
    if strictjson.has_more_values(document, _VALUE_LIMIT):
        raise InvalidDescriptor.at((), f"a descriptor must have at most {_VALUE_LIMIT} values")


def parse(data: bytes) -> Descriptor:
    """The descriptor in a JSON text.

    Raises :class:`MalformedJSON`, and what :func:`validate` raises.
    """
    try:
        document = strictjson.loads(data, max_depth=_DEPTH_LIMIT, max_values=_VALUE_LIMIT)
    except MalformedJSON as error:
        if data.lstrip().startswith(b"{"):
            raise
        example = '{"operator": "onnx", "dtype": "float32", "shape": [2, 3]}'
        raise MalformedJSON(f"{error.detail}; a descriptor is an object, as {example}") from None
    return validate(document)


def resolve_json(data: bytes) -> RoundCall:
    """The call that the descriptor in a JSON text resolves to.

    Raises what :func:`parse` and a descriptor's ``resolve`` raise.
    """
    return parse(data).resolve()


def catalog() -> dict[str, Any]:
    """Every dialect with its versions, data types and modes, as JSON values."""
    return {name: dialect.describe() for name, dialect in DIALECTS.items()}


def operator_of(descriptor: Descriptor) -> RoundOperator:
    """The operator of a descriptor."""
    return DIALECTS[descriptor.dialect].object.of(descriptor)
