"""Operator descriptors: JSON documents that name a rounding operator and its tensors' layouts.

Each dialect has the names and rules of its own specification. Each descriptor resolves to a
:class:`~tensor_round.call.RoundCall`. A new dialect is a module here and a row in
:data:`DIALECTS`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ..call import RoundCall
from ..errors import Fault, InvalidDescriptor
from ..quoting import shown, suggestion
from ..wire import strictjson
from . import array_api, directml, ieee754, onnx, openvino, stablehlo, webnn
from .array_api import ArrayAPIArray, ArrayAPIDescriptor
from .dialect import Dialect
from .directml import DirectMLDescriptor, ElementWiseRoundDesc
from .directml_tensor import BufferTensorDesc
from .faults import faults_of
from .ieee754 import IEEE754Descriptor, IEEE754Tensor
from .onnx import OnnxDescriptor, OnnxTensor
from .openvino import OpenVINOData, OpenVINODescriptor, OpenVINOTensor
from .stablehlo import StableHLODescriptor
from .webnn import WebNNDescriptor, WebNNTensor

__all__ = [
    "DIALECTS",
    "ArrayAPIArray",
    "ArrayAPIDescriptor",
    "BufferTensorDesc",
    "Descriptor",
    "DirectMLDescriptor",
    "ElementWiseRoundDesc",
    "IEEE754Descriptor",
    "IEEE754Tensor",
    "OnnxDescriptor",
    "OnnxTensor",
    "OpenVINOData",
    "OpenVINODescriptor",
    "OpenVINOTensor",
    "StableHLODescriptor",
    "WebNNDescriptor",
    "WebNNTensor",
    "catalog",
    "parse",
    "refuse_oversized",
    "resolve_json",
    "validate",
]

#: A descriptor of any dialect, as schemas document it. To read one, use :func:`validate`.
Descriptor = Annotated[
    IEEE754Descriptor
    | OnnxDescriptor
    | OpenVINODescriptor
    | DirectMLDescriptor
    | WebNNDescriptor
    | StableHLODescriptor
    | ArrayAPIDescriptor,
    Field(discriminator="dialect"),
]

_READER: TypeAdapter[Descriptor] = TypeAdapter(Descriptor)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        *(ieee754.DIALECT, onnx.DIALECT, openvino.DIALECT, directml.DIALECT),
        *(webnn.DIALECT, stablehlo.DIALECT, array_api.DIALECT),
    )
}

_NO_DIALECT = f"must be one of {', '.join(DIALECTS)}"

#: The deepest nesting of objects and arrays; valid descriptors have at most five levels.
_DEPTH_LIMIT = 16

#: Values and keys in a descriptor. The longest valid one has about 170. A larger document is
#: refused before each of its values becomes a fault.
_VALUE_LIMIT = 512


def validate(document: object) -> Descriptor:
    """The descriptor in a parsed JSON document.

    Raises :class:`InvalidDescriptor` with every wrong field, type and name. Rules on several
    fields (rank, agreement of input and output, overlap) are checked by ``resolve``.
    """
    if not isinstance(document, dict):
        raise _refusal(("dialect",), f"{_NO_DIALECT}, in an object, got {shown(document)}")
    if "dialect" not in document:
        raise _refusal(("dialect",), _NO_DIALECT)
    name = document["dialect"]
    if not isinstance(name, str) or name not in DIALECTS:
        hint = suggestion(name, DIALECTS)
        raise _refusal(("dialect",), f"{_NO_DIALECT}, got {shown(name)}{hint}")
    refuse_oversized(document)
    try:
        return _READER.validate_python(document)
    except ValidationError as error:
        raise InvalidDescriptor.of(faults_of(error, tagged=True)) from None


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor can have."""
    if strictjson.has_more_values(document, _VALUE_LIMIT):
        raise _refusal((), f"a descriptor must have at most {_VALUE_LIMIT} values")


def parse(data: bytes) -> Descriptor:
    """The descriptor in a JSON text.

    Raises :class:`MalformedJSON`, and what :func:`validate` raises.
    """
    return validate(strictjson.loads(data, max_depth=_DEPTH_LIMIT, max_values=_VALUE_LIMIT))


def resolve_json(data: bytes) -> RoundCall:
    """The call that the descriptor in a JSON text resolves to.

    Raises what :func:`parse` and a descriptor's ``resolve`` raise.
    """
    return parse(data).resolve()


def catalog() -> dict[str, Any]:
    """Every dialect with its versions, data types and modes, as JSON values."""
    return {name: dialect.describe() for name, dialect in DIALECTS.items()}


def _refusal(loc: tuple[str, ...], msg: str) -> InvalidDescriptor:
    return InvalidDescriptor.of([Fault(loc, msg)])
