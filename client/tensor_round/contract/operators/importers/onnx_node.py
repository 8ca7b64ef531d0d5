"""Nodes of ONNX models."""

from __future__ import annotations

from typing import Any, cast

from ...errors import Fault, InvalidArgument, InvalidDescriptor
from ...quoting import shown
from ..dialects.onnx import OnnxOpset, OnnxRound


# Any: onnx is no dependency, and its classes have no annotations.
def from_onnx(node: Any, opset: int) -> OnnxRound:
    """Read the operator of an ONNX node; ``opset`` is the model's version of the default domain.

    ``node`` is an ``onnx.NodeProto``, or an object with its fields. A node states no tensor, so
    the returned operator's ``.descriptor(dtype, shape)`` needs both arguments. Raises
    :class:`InvalidDescriptor` for anything but ONNX's Round of that opset.
    """
    try:
        broken = (
            ("op_type", node.op_type != "Round", f"is read, got {shown(node.op_type)}"),
            ("domain", node.domain not in ("", "ai.onnx"), "is of the default domain"),
            ("attribute", len(node.attribute) > 0, "has no attributes"),
            ("input", len(node.input) != 1, "has exactly one input"),
            ("output", len(node.output) != 1, "has exactly one output"),
        )
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"the node must be an onnx.NodeProto, one of model.graph.node, got {shown(node)}"
        ) from error
    if faults := [Fault((field,), f"onnx: Round {rule}") for field, is_so, rule in broken if is_so]:
        raise InvalidDescriptor.of(faults)
    return OnnxRound(opset_version=cast(OnnxOpset, opset), domain=str(node.domain))
