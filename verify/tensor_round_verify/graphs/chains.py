"""The right outputs of a model, where nodes with a rule alone lie before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..reference import FLOATS, Flags, is_nan
from ..runtimes.model_tensors import Tensor
from .graph import Graph, Moving, Node, Quantizing
from .judging import NoRule, result_of


@dataclass(frozen=True, slots=True)
class Expected:
    """The right value of a tensor.

    ``has_result`` marks the elements that have a right result, None if all have one. ``judged``
    tells whether it follows from the rule of a judged node.
    """

    tensor: Tensor
    has_result: Flags | None = None
    judged: bool = False


def expected_outputs(graph: Graph, tensors: Mapping[str, Tensor]) -> dict[str, Expected]:
    """The outputs that follow from ``tensors`` by the rules of judged nodes, by their names.

    ``tensors`` are inputs, constants and what a run handed out; of these the ones that lie behind
    nodes without a rule count.
    """
    needed, found = set(graph.outputs.values()), dict[str, Expected]()
    chain: list[Node] = []
    for node in reversed(graph.every):
        if node.rule and node.output in needed:
            needed.update(node.inputs)
            chain.append(node)
    for node in reversed(chain):
        operands = [
            found.get(name) or Expected(tensors[name])
            for name in node.inputs
            if name and (name in found or name in tensors)
        ]
        if len(operands) == len([name for name in node.inputs if name]):
            shape = tensors[node.output].shape if node.output in tensors else None
            result = _result(node, operands, shape)
            if result:
                found[node.output] = result
    return {
        name: found[tensor]
        for name, tensor in graph.outputs.items()
        if tensor in found and found[tensor].judged
    }


def _result(node: Node, operands: list[Expected], shape: tuple[int, ...] | None) -> Expected | None:
    x = operands[0]
    if shape is None:
        if isinstance(node.rule, Moving):
            return None
        shape = x.tensor.shape
    try:
        tensor = result_of(node, [operand.tensor for operand in operands], shape)
    except NoRule:
        return None
    has_result = x.has_result
    if isinstance(node.rule, Moving) and has_result is not None and node.rule.order is not None:
        order = node.rule.order or None
        has_result = has_result.reshape(x.tensor.shape).transpose(order).reshape(-1)
    if isinstance(node.rule, Quantizing) and x.tensor.dtype in FLOATS:
        number = ~is_nan(x.tensor.dtype, x.tensor.bits)
        has_result = number if has_result is None else number & has_result
    return Expected(tensor, has_result, node.is_judged or x.judged)
