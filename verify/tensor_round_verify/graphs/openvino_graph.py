"""OpenVINO's IR: Round, Ceiling, Floor and Convert, and what moves elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects.openvino import DTYPES, MODES
from tensor_round.contract.operators.operator import name_in

from ..runtimes import TIMEOUT, NotSupported, Runtime
from ..runtimes.model_tensors import Array, Tensor
from ..runtimes.openvino import OpenVINO
from .graph import Casting, Declared, Graph, Moving, Node, Rounding, Rule, cast_rule, why_unjudged

DIRECTIONS = {"Ceiling": "toward_positive", "Floor": "toward_negative"}
#: Operators that pass their elements on in C order.
IN_ORDER = {"Reshape", "Squeeze", "Unsqueeze"}
RANDOM = {"RandomUniform", "Multinomial"}
#: Operators with bodies.
_BODIES = {"If", "Loop", "TensorIterator"}
#: Nodes that are no operators of the model.
_ENDS = {"Parameter", "Constant", "Result"}


# Any: OpenVINO's nodes have no annotations.
class OpenVINOGraph(Graph):
    """A model of OpenVINO, read and run by OpenVINO."""

    def __init__(self, path: Path) -> None:
        self._reader = OpenVINO("", TIMEOUT)
        model = self._reader.read(path)
        inputs = [
            Declared(_names(parameter), _numpy_type(parameter))
            for parameter in model.get_parameters()
        ]
        outputs: dict[str, str] = {}
        for result in model.get_results():
            port, own = result.input_value(0), result.get_friendly_name()
            # A tensor without a name has that of the result, which is a number for most.
            names = sorted(port.get_names() - {own}) or [port.get_node().get_friendly_name()]
            outputs[own if names[0] in outputs else names[0]] = _tensor(port)
        ops = [op for op in model.get_ordered_ops() if op.get_type_name() not in _ENDS]
        super().__init__(path, map(_read, ops), inputs, outputs)

    def observed(
        self, runtime: Runtime | None, given: Mapping[str, Array]
    ) -> tuple[str, dict[str, Tensor]]:
        """Run it with every tensor of the nodes as a result."""
        runtime = self._openvino(runtime or self._reader)
        found = runtime.run_ir(self.path, given, self.wanted)[len(self.outputs) :]
        return runtime.name, dict(zip(self.wanted, found, strict=True))

    def unchanged(
        self, runtime: Runtime, given: Mapping[str, Array], *, strict: bool = False
    ) -> dict[str, Tensor]:
        """Run the file."""
        found = self._openvino(runtime).run_ir(self.path, given, strict=strict)
        return dict(zip(self.outputs, found, strict=True))

    def alone(self, runtime: Runtime, node: Node, operands: Sequence[Tensor]) -> Tensor:
        """Run a model of the node."""
        kind, _, argument = node.operator.partition(" ")
        attributes = {"Round": {"mode": argument}}.get(kind, {})
        if isinstance(node.rule, Casting):
            attributes = {"destination_type": name_in(DTYPES, node.rule.target)}
        runtime = self._openvino(runtime)
        return runtime.run_alone(kind.lower(), attributes, operands[0].array())

    def _openvino(self, runtime: Runtime) -> OpenVINO:
        if not isinstance(runtime, OpenVINO):
            raise NotSupported("it runs no OpenVINO IR")
        return runtime


def _read(op: Any) -> Node:
    kind, name = op.get_type_name(), op.get_friendly_name()
    operator, why = kind, why_unjudged(kind)
    inputs = tuple(_tensor(op.input_value(place)) for place in range(op.get_input_size()))
    rule: Rule | Moving | None = None
    if kind == "Round":
        mode = op.get_attributes()["mode"]
        rule, operator = Rounding(MODES[mode].value), f"Round {mode}"
    elif kind in DIRECTIONS:
        rule = Rounding(DIRECTIONS[kind])
    elif kind == "Convert":
        source, target = (
            _name_of(element) for element in (op.get_input_element_type(0), op.get_element_type())
        )
        found, operator = cast_rule(source, target, saturate=False), f"Convert to {target}"
        rule, why = (None, found) if isinstance(found, str) else (found, "")
    elif kind in IN_ORDER:
        rule = Moving()
    elif kind == "Transpose" and op.input_value(1).get_node().get_type_name() == "Constant":
        rule = Moving(tuple(map(int, op.input_value(1).get_node().data)))
    elif kind in _BODIES:
        why = "verify does not look into its body"
    elif kind == "ConvertLike":
        why = "no rule is known here for this operator"
    outputs = tuple(f"{place} {name}" for place in range(op.get_output_size()))
    # The other input of what moves elements is a shape, or an order.
    return Node(name, operator, rule, inputs[:1] if rule else inputs, outputs, why, kind in RANDOM)


def _tensor(port: Any) -> str:
    """The name of a tensor: the number of the output that it is, and its node."""
    return f"{port.get_index()} {port.get_node().get_friendly_name()}"


def _name_of(element: Any) -> str:
    kind = str(element.get_type_name())
    return {"boolean": "bool"}.get(kind, DTYPES.get(kind, kind))


def _names(parameter: Any) -> tuple[str, ...]:
    """The names of an input: of its tensor, and of its node."""
    names = sorted(parameter.output(0).get_names())
    return tuple(dict.fromkeys((*names, parameter.get_friendly_name())))


def _numpy_type(parameter: Any) -> np.dtype[np.generic] | None:
    name = _name_of(parameter.get_element_type())
    if name == "bool":
        return np.dtype(np.bool_)
    return BY_NAME[name].numpy if name in BY_NAME else None
