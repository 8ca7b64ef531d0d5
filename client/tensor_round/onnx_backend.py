"""Models of ONNX Round on a service, behind ONNX's own backend interface.

``onnx.backend.test.BackendTest(OnnxBackend, __name__)`` is ONNX's conformance suite on
a service. This module needs ``onnx``, which ``tensor_round`` does not, and is imported
when ``tensor_round.OnnxBackend`` is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, checker, defs, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from .errors import InvalidArgument, InvalidDescriptor
from .operators.readers import from_onnx
from .sdk.client import Client

_DEFAULT_DOMAINS = ("", "ai.onnx")


class NotOnlyRound(InvalidDescriptor, BackendIsNotSupposedToImplementIt):
    """The model has other operators than Round; ONNX's suite passes over such cases."""


class OnnxBackend(Backend):
    """Runs models all of whose nodes are Round on a service.

    ``options`` of every method are those of :class:`~tensor_round.Client`, ``url`` and
    ``api_key`` among them; without them ``TENSOR_ROUND_URL`` says where the service is.
    """

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> RoundModel:
        """The model, ready to run; nothing is sent yet.

        Raises ``onnx.checker.ValidationError`` for what is no model, :class:`NotOnlyRound`
        for one with other operators, and :class:`InvalidDescriptor` for an operator set
        that has no Round, or is newer than the newest known.
        """
        checker.check_model(model)
        try:
            return RoundModel(model, options)
        except InvalidDescriptor as refusal:
            if all(node.op_type == "Round" for node in model.graph.node):
                raise
            raise NotOnlyRound(refusal.detail, faults=refusal.faults) from None

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether every node of the model is a Round that the service knows."""
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
        """The output of one node, of the operator set ``opset_version`` or else onnx's newest."""
        opset = options.pop("opset_version", defs.onnx_opset_version())
        operator = from_onnx(node, opset)
        with Client(**options) as client:
            return (client.round(np.asarray(inputs[0]), operator),)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU, which stands for wherever the service rounds: no tensor is placed."""
        return bool(Device(device).type == DeviceType.CPU)


class RoundModel(BackendRep):
    """A model of Round nodes, as :meth:`OnnxBackend.prepare` gives it."""

    def __init__(self, model: ModelProto, options: Mapping[str, Any]) -> None:
        opset = next((i.version for i in model.opset_import if i.domain in _DEFAULT_DOMAINS), 1)
        self._graph = model.graph
        self._options = options
        self._operators = [from_onnx(node, opset) for node in model.graph.node]
        self._constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        #: What a run must be given, in this order.
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
            # Nodes are sorted: onnx's checker asks for it.
            for node, operator in zip(self._graph.node, self._operators, strict=True):
                source = np.asarray(values[node.input[0]])
                values[node.output[0]] = client.round(source, operator)
        return tuple(values[output.name] for output in self._graph.output)
