"""DxDispatch's JSON: rounding operators of DirectML, on tensors that the caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify, TensorRoundError
from tensor_round.contract.operators.dialects.directml import DirectMLRound
from tensor_round.contract.operators.importers.dxdispatch import (
    is_round,
    operator_in,
    operators_that_round,
    parsed_document,
)

from ..runtimes import NotSupported, Runtime
from ..runtimes.model_tensors import Array, Tensor
from .graph import Declared, Graph, Node, Rounding, why_unjudged

#: The operator's name in DirectML, and that of its input.
_OPERATOR, _INPUT = "ELEMENT_WISE_ROUND", "InputTensor"
#: Others that round or convert, beside those that quantize.
_ROUNDING = {"CAST", "ELEMENT_WISE_CEIL", "ELEMENT_WISE_FLOOR"}
_WHY = "only ELEMENT_WISE_ROUND is judged here"


class DxDispatchGraph(Graph):
    """An operator, or a model's rounding operators; DirectML itself is not run."""

    def __init__(self, path: Path) -> None:
        try:
            document = parsed_document(path)
            operators = [
                (name, each) for name, each in operators_that_round(document) if is_round(each)
            ]
            if "dispatchables" not in document:
                operators = [("", document)]
            read = [(name, operator_in(each, "3_0")) for name, each in operators]
            calls = [operator.descriptor().resolve() for _, operator in read]
        except TensorRoundError as error:
            raise CannotVerify(f"{path}: {error.detail}") from error
        nodes: list[Node] = []
        inputs: list[Declared] = []
        for (name, operator), call in zip(read, calls, strict=True):
            if not isinstance(operator, DirectMLRound):
                raise CannotVerify(f"{path}: {_WHY}")
            layout, names = call.input, _bound(document, name)
            nodes.append(
                Node(
                    name or _OPERATOR,
                    f"{_OPERATOR} {operator.rounding_mode}",
                    Rounding(call.rounding.value),
                    names[:1],
                )
            )
            dtype = BY_NAME[layout.dtype.name].numpy
            if names[0] not in {declared.names[0] for declared in inputs}:
                inputs.append(Declared(names, dtype, layout.shape))
        super().__init__(path, [*nodes, *_unjudged(document)], inputs)

    def observed(
        self, runtime: Runtime | None, given: Mapping[str, Array]
    ) -> tuple[str, dict[str, Tensor]]:
        """The tensors as they were given: no runtime here runs DirectML's models."""
        if runtime is not None:
            raise NotSupported("it runs no models of DirectML")
        return "as given", {name: Tensor.of(array) for name, array in given.items()}


def _unjudged(document: Mapping[str, Any]) -> Iterator[Node]:
    """The model's other operators that round or convert."""
    dispatchables = document.get("dispatchables")
    for name, operator in dispatchables.items() if isinstance(dispatchables, Mapping) else ():
        kind = str(isinstance(operator, Mapping) and operator.get("type", operator.get("Type")))
        kind = kind.removeprefix("DML_OPERATOR_")
        if kind != _OPERATOR:
            is_rounding = kind in _ROUNDING or why_unjudged(kind)
            yield Node(name, kind, None, why=_WHY if is_rounding else "")


def _bound(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The names of an operator's input: the resource that is bound to it, and the operator's."""
    if not name:
        return (_INPUT,)
    commands = document.get("commands")
    for command in commands if isinstance(commands, Iterable) else ():
        if isinstance(command, Mapping) and command.get("dispatchable") == name:
            bindings = command.get("bindings")
            resource = bindings.get(_INPUT) if isinstance(bindings, Mapping) else None
            if isinstance(resource, str):
                return (resource, name)
    return (name,)
