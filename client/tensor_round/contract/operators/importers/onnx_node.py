"""Nodes of ONNX models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from ...errors import Fault, InvalidArgument, InvalidDescriptor
from ...quoting import shown
from ..dialects.onnx import OnnxOpset, OnnxRound
from .sources import only, read_file, refuse_name

#: The longest file, in bytes: protobuf reads no longer message.
MAX_LENGTH = (2 << 30) - 1
#: The names of the default domain.
DEFAULT_DOMAINS = ("", "ai.onnx")


# Any: onnx is no dependency, and its classes have no annotations.
def from_onnx(node: Any, opset: Any = None, *, name: str | None = None) -> OnnxRound:
    """Read the operator of an ONNX node, or of a model with one Round.

    ``node`` is an ``onnx.NodeProto`` or an object with its fields; ``opset`` is then the version of
    the default domain, as an integer or as ``model.opset_import[0]``. Or ``node`` is a model: an
    ``onnx.ModelProto``, its bytes, ONNX's text (a ``str`` with ``=>``), or the path of a file; all
    but the first need the onnx package. ``name`` chooses one of several Rounds, by the name of
    the node or its output.

    Raises :class:`InvalidDescriptor` for anything but ONNX's Round of that opset, and
    :class:`InvalidArgument` for a node without an opset and for an unreadable model.
    """
    if isinstance(node, str | bytes | os.PathLike):
        node = _read(node)
    if hasattr(node, "graph") and hasattr(node, "opset_import"):
        stated = _stated(node)
        if opset is not None and _version(opset) != stated:
            raise InvalidArgument(f"the model states opset {stated}, got {shown(_version(opset))}")
        rounds = [(label(each), each) for each in node.graph.node if _is_round(each)]
        node, opset = only(rounds, name, ("graph", "node"), "onnx", "Round"), stated
    else:
        refuse_name(name)
    return _operator(node, opset)


def _operator(node: Any, opset: Any) -> OnnxRound:
    try:
        broken = (
            ("op_type", node.op_type != "Round", f"is read, got {shown(node.op_type)}"),
            ("domain", node.domain not in DEFAULT_DOMAINS, "is of the default domain"),
            ("attribute", len(node.attribute) > 0, "has no attributes"),
            ("input", len(node.input) != 1, "has exactly one input"),
            ("output", len(node.output) != 1, "has exactly one output"),
        )
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            "the node must be an onnx.NodeProto, one of model.graph.node, or a model, "
            f"got {shown(node)}"
        ) from error
    if faults := [Fault((field,), f"onnx: Round {rule}") for field, is_so, rule in broken if is_so]:
        raise InvalidDescriptor.of(faults)
    if opset is None:
        raise InvalidArgument(
            "a node states no opset: write from_onnx(node, model.opset_import[0]), "
            "or give the model"
        )
    return OnnxRound(opset_version=cast(OnnxOpset, _version(opset)), domain=str(node.domain))


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


def _is_round(node: Any) -> bool:
    return node.op_type == "Round" and node.domain in DEFAULT_DOMAINS


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
