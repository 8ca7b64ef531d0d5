"""ONNX's backend interface: models of Round, Floor, Ceil and Cast run on a service.

``onnx.backend.test.BackendTest(OnnxBackend, __name__)`` runs ONNX's conformance suite on a service.
This module needs ``onnx``, which ``tensor_round`` does not. It is imported on the first access to
``tensor_round.OnnxBackend``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, checker, defs, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from tensor_round.clients.client import Client
from tensor_round.contract.errors import InvalidArgument, InvalidDescriptor
from tensor_round.contract.operators.importers import from_onnx
from tensor_round.contract.operators.importers.onnx_node import DEFAULT_DOMAINS
from tensor_round.contract.operators.operator import CastOperator, RoundOperator


class NotOnlyRound(InvalidDescriptor, BackendIsNotSupposedToImplementIt):
    """The model has other operators or types; ONNX's suite skips such cases."""


class OnnxBackend(Backend):
    """Runs models on a service whose nodes are Round, Floor, Ceil and Cast only.

    ``options`` of every method are the arguments of :class:`~tensor_round.Client`, ``url`` and
    ``api_key`` included; the URL defaults to ``TENSOR_ROUND_URL``.
    """

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> RoundModel:
        """The model, ready to run; nothing is sent yet.

        Raises ``onnx.checker.ValidationError`` for an invalid model, :class:`NotOnlyRound` for
        other operators, and :class:`InvalidDescriptor` for an opset in which an operator has
        another form, or that is newer than the newest known one.
        """
        checker.check_model(model)
        try:
            return RoundModel(model, options)
        except InvalidDescriptor as refusal:
            if any(fault.loc == ("opset_version",) for fault in refusal.faults):
                raise
            raise NotOnlyRound(refusal.detail, faults=refusal.faults) from None

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether every node of the model is one that this backend runs, of a known opset."""
        try:
            RoundModel(model, options)
        except InvalidDescriptor:
            return False
        return True

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """The output of one node; ``opset_version`` defaults to onnx's newest opset."""
        opset = options.pop("opset_version", defs.onnx_opset_version())
        operator = _operator(node, opset)
        with Client(**options) as client:
            return (_result(client, operator, np.asarray(inputs[0])),)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU: tensors are exchanged in host memory."""
        return bool(Device(device).type == DeviceType.CPU)


def _operator(node: NodeProto, opset: int) -> RoundOperator:
    """The operator of a node with one input; raises :class:`InvalidDescriptor`."""
    operator: RoundOperator = from_onnx(node, opset)
    if operator.kind.is_linear:
        rule = f"onnx: this backend runs nodes of one input, got {node.op_type}"
        raise InvalidDescriptor.at(("op_type",), rule)
    return operator


def _result(client: Client, operator: RoundOperator, x: Any) -> Any:
    if isinstance(operator, CastOperator):
        return client.cast(x, operator=operator)
    return client.round(x, operator)


class RoundModel(BackendRep):
    """A model of nodes that round, made by :meth:`OnnxBackend.prepare`."""

    def __init__(self, model: ModelProto, options: Mapping[str, Any]) -> None:
        opset = next((i.version for i in model.opset_import if i.domain in DEFAULT_DOMAINS), 1)
        self._graph = model.graph
        self._options = options
        self._operators = [_operator(node, opset) for node in model.graph.node]
        self._constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        #: The names of a run's inputs, in order.
        self._inputs = [i.name for i in model.graph.input if i.name not in self._constants]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The model's outputs for these inputs: arrays in the graph's order, or by name."""
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self._inputs):
                raise InvalidArgument(
                    f"the model has {len(self._inputs)} inputs, got {len(inputs)}"
                )
            inputs = dict(zip(self._inputs, inputs, strict=True))
        values: dict[str, Any] = {**self._constants, **inputs}
        with Client(**self._options) as client:
            # onnx's checker has verified that the nodes are topologically sorted.
            for node, operator in zip(self._graph.node, self._operators, strict=True):
                source = np.asarray(values[node.input[0]])
                values[node.output[0]] = _result(client, operator, source)
        return tuple(values[output.name] for output in self._graph.output)
