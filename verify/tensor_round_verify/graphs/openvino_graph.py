"""OpenVINO's IR: the tensors of Round, Ceiling, Floor and Convert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects.openvino import DTYPES, MODES

from ..runtimes import TIMEOUT, NotTaken, Runtime
from ..runtimes.openvino import OpenVINO
from ..runtimes.tensors import Array, Tensor
from .graph import Casting, Declared, Graph, Node, NodeLacking, Rounding, cast_rule, row_of

DIRECTIONS = {"Ceiling": "toward_positive", "Floor": "toward_negative"}
#: Operators with bodies.
_BODIES = ("If", "Loop", "TensorIterator")


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
        super().__init__(path, map(_read, model.get_ordered_ops()), inputs)

    def run(
        self, runtime: Runtime | None, given: Mapping[str, Array], *, outputs: bool
    ) -> tuple[str, dict[str, Tensor]]:
        """Run it with every tensor of the nodes as a result."""
        runtime = runtime or self._reader
        if not isinstance(runtime, OpenVINO):
            raise NotTaken("it runs no OpenVINO IR")
        wanted = [node.inputs[0] for node in self.nodes]
        wanted += [node.output for node in self.nodes] if outputs else []
        return runtime.name, runtime.run_ir(self.path, given, wanted)


def _read(op: Any) -> Node | NodeLacking | None:
    kind, name = op.get_type_name(), op.get_friendly_name()
    rule: Rounding | Casting | str | None = None
    operator = kind
    if kind == "Round":
        mode = op.get_attributes()["mode"]
        rule, operator = Rounding(MODES[mode].value), f"Round {mode}"
    elif kind in DIRECTIONS:
        rule = Rounding(DIRECTIONS[kind])
    elif kind == "Convert":
        source, target = (
            _name_of(element) for element in (op.get_input_element_type(0), op.get_element_type())
        )
        rule, operator = cast_rule(source, target, saturate=False), f"Convert to {target}"
    elif kind in _BODIES:
        rule = "verify does not look into its body"
    return row_of(name, operator, rule, (f"input {name}",), f"output {name}")


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
