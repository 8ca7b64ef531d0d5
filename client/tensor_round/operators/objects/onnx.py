"""The operator of the ``onnx`` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...names import AnyDType, OnnxOpset
from ..onnx import OnnxDescriptor
from ..tensor_arguments import canonical_name, name_in, sizes_of
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class OnnxRound(RoundOperator):
    """ONNX Round: ties to even, on the float types of the opset.

    ``domain`` is the default domain, by either of its names.
    """

    opset_version: OnnxOpset = 22
    domain: str = field(default="", compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OnnxDescriptor:
        """The ``onnx`` descriptor for a tensor."""
        return OnnxDescriptor.read(
            {
                "op_type": "Round",
                **({"domain": self.domain} if self.domain else {}),
                "opset_version": self.opset_version,
                "input": {
                    "elem_type": name_in(canonical_name(dtype), "onnx"),
                    "shape": sizes_of(shape),
                },
            }
        )
