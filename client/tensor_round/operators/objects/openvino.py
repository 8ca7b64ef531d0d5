"""The operator of the ``openvino`` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ...names import AnyDType, DTypeName, OpenVINOMode
from ..openvino import OpenVINODescriptor
from ..tensor_arguments import canonical_name, name_in, sizes_of
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class OpenVINORound(RoundOperator):
    """OpenVINO Round-5; ``mode`` is ``half_to_even`` or ``half_away_from_zero``.

    ``dtype`` and ``shape`` are those that a layer of an IR states for its tensor.
    """

    _paths: ClassVar[Mapping[str, str]] = {"mode": "mode"}

    mode: OpenVINOMode = "half_to_even"
    dtype: DTypeName | None = field(default=None, compare=False, repr=False, kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OpenVINODescriptor:
        """The ``openvino`` descriptor for a tensor; arguments default to the layer's tensor."""
        name = canonical_name(self.dtype if dtype is None else dtype)
        sizes = sizes_of(self.shape if shape is None else shape)
        return OpenVINODescriptor.read(
            {
                "type": "Round",
                "version": "opset5",
                "data": {"mode": self.mode},
                "input": {"element_type": name_in(name, "openvino"), "shape": sizes},
            }
        )
