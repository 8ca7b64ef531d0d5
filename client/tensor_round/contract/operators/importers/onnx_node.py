"""Nodes of ONNX models: Round, Floor, Ceil, Cast, QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ...errors import Fault, InvalidArgument, InvalidDescriptor
from ...quoting import shown
from ..dialects.onnx import (
    DIALECT,
    OnnxCast,
    OnnxCeil,
    OnnxDequantizeLinear,
    OnnxFloor,
    OnnxQuantizeLinear,
    OnnxRound,
)
from ..onnx_versions import SINCE
from ..operator import Kind
from .sources import only, read_file, refuse_name

#: The longest file, in bytes: protobuf reads no longer message.
MAX_LENGTH = (2 << 30) - 1
#: The names of the default domain.
DEFAULT_DOMAINS = ("", "ai.onnx")


OnnxOperator = (
    OnnxRound | OnnxFloor | OnnxCeil | OnnxCast | OnnxQuantizeLinear | OnnxDequantizeLinear
)


# Any: onnx is no dependency, and its classes have no annotations.
def from_onnx(node: Any, opset: Any = None, *, name: str | None = None) -> OnnxOperator:
    """Read the operator of a node of ONNX, alone or in a model.

    These are Round, Floor, Ceil, Cast, QuantizeLinear and DequantizeLinear; the scale and the zero
    point of the last two are for the call that uses the operator.

    ``node`` is an ``onnx.NodeProto`` or an object with its fields; ``opset`` is then the version of
    the default domain, as an integer or as ``model.opset_import[0]``. Or ``node`` is a model: an
    ``onnx.ModelProto``, its bytes, ONNX's text (a ``str`` with ``=>``), or the path of a file; all
    but the first need the onnx package. ``name`` chooses one of several nodes, by the name of the
    node or its output; without it, a Round is chosen if it is the only one.

    Raises :class:`InvalidDescriptor` for anything but these operators as that opset has them, and
    :class:`InvalidArgument` for a node without an opset and for an unreadable model.
    """
    if isinstance(node, str | bytes | os.PathLike):
        node = _read(node)
    if hasattr(node, "graph") and hasattr(node, "opset_import"):
        stated = _stated(node)
        if opset is not None and _version(opset) != stated:
            raise InvalidArgument(f"the model states opset {stated}, got {shown(_version(opset))}")
        found = [(label(each), each) for each in node.graph.node if _is_read(each)]
        node, opset = only(found, name, ("graph", "node"), "onnx", _is_round), stated
    else:
        refuse_name(name)
    return _operator(node, opset)


def _operator(node: Any, opset: Any) -> OnnxOperator:
    try:
        kind = node.op_type
        taken = _ATTRIBUTES.get(kind, ())
        attributes = {a.name: _value(a) for a in node.attribute} if taken else {}
        unknown = attributes.keys() - taken or (not taken and len(node.attribute) > 0)
        has = f"has only the attributes {', '.join(taken)}" if taken else "has no attributes"
        most = 3 if kind in _LINEAR else 1
        takes = "has two or three inputs" if kind in _LINEAR else "has exactly one input"
        broken = (
            ("op_type", kind not in _KINDS, f"is read, got {shown(kind)}"),
            ("domain", node.domain not in DEFAULT_DOMAINS, "is of the default domain"),
            ("attribute", bool(unknown), has),
            ("input", not (most + 1) // 2 <= len(node.input) <= most, takes),
            ("output", len(node.output) != 1, "has exactly one output"),
        )
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            "the node must be an onnx.NodeProto, one of model.graph.node, or a model, "
            f"got {shown(node)}"
        ) from error
    noun = kind if kind in _KINDS else " or ".join(_KINDS)
    if faults := [Fault((at,), f"onnx: {noun} {rule}") for at, is_so, rule in broken if is_so]:
        raise InvalidDescriptor.of(faults)
    if opset is None:
        raise InvalidArgument(
            "a node states no opset: write from_onnx(node, model.opset_import[0]), "
            "or give the model"
        )
    row = DIALECT.operator_named(kind)
    # Every opset takes these tensors, which the operator does not keep.
    tensors: dict[str, Any] = {"input": {"elem_type": "FLOAT", "shape": [1]}}
    if row.kind is Kind.DEQUANTIZE:
        tensors["input"]["elem_type"] = "UINT8"
    if row.kind.is_linear:
        tensors[row.tensors[1]] = {"elem_type": "FLOAT", "shape": []}
    stated = {"opset_version": _version(opset), "domain": str(node.domain), **attributes}
    descriptor = DIALECT.read({"op_type": kind, **stated, **tensors})
    descriptor.resolve()
    operator = row.object.of(descriptor)
    if isinstance(operator, OnnxQuantizeLinear | OnnxDequantizeLinear):
        # Without output_dtype the type is that of a tensor.
        operator = replace(operator, to=operator.to if attributes.get("output_dtype") else None)
    return cast(OnnxOperator, operator)


#: The operators that are read, and the attributes of those that have any.
_KINDS = tuple(operator.name for operator in DIALECT.operators)
_LINEAR = [operator.name for operator in DIALECT.operators if operator.kind.is_linear]
_ATTRIBUTES = {
    **{name: tuple(found) for name, found in SINCE.items()},
    "Cast": ("to", *SINCE["Cast"]),
}
#: AttributeProto.AttributeType.
_STRING = 3


def _value(attribute: Any) -> int | str:
    """The integer or the string of an AttributeProto."""
    if attribute.type == _STRING:
        return str(attribute.s.decode("utf-8", "replace"))
    return int(attribute.i)


def _version(opset: Any) -> Any:
    """The version in an OperatorSetIdProto of the default domain; anything else as it is."""
    if not hasattr(opset, "version"):
        return opset
    if getattr(opset, "domain", "") not in DEFAULT_DOMAINS:
        raise InvalidArgument(f"the opset is of the domain {shown(opset.domain)}, not the default")
    return opset.version


def _stated(model: Any) -> Any:
    """The version of the default domain that a model imports."""
    for opset in model.opset_import:
        if opset.domain in DEFAULT_DOMAINS:
            return opset.version
    rule = "onnx: the model imports no opset of the default domain"
    raise InvalidDescriptor.at(("opset_import",), rule)


def _is_read(node: Any) -> bool:
    return node.op_type in _KINDS and node.domain in DEFAULT_DOMAINS


def _is_round(node: Any) -> bool:
    return bool(node.op_type == "Round")


def label(node: Any) -> str:
    """The node's name; many nodes have none, and then their output's."""
    return str(node.name or (node.output[0] if node.output else ""))


def _read(source: str | bytes | os.PathLike[str]) -> Any:
    """The ModelProto in a file, in bytes, or in ONNX's text."""
    is_text = isinstance(source, str) and "=>" in source
    if not is_text and not isinstance(source, bytes):
        source = read_file(Path(source), MAX_LENGTH)
    try:
        import onnx
        import onnx.parser
    except ImportError:
        raise InvalidArgument(
            "a model in a file, bytes or text is read by the onnx package: pip install onnx"
        ) from None
    parse = onnx.parser.parse_model if is_text else onnx.load_model_from_string
    try:
        return parse(source)
    except Exception as error:  # of classes that onnx does not publish
        line = next((part.strip() for part in str(error).splitlines() if part.strip()), "")
        raise InvalidArgument(
            f"this is not an ONNX model: {line or type(error).__name__}"
        ) from error
