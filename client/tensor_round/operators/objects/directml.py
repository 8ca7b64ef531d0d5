"""The operator of the ``directml`` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from ...names import AnyDType, DirectMLMode, FeatureLevel
from ..directml import DEFAULT_MODE, DirectMLDescriptor
from ..directml_tensor import AnyTensorDesc
from ..tensor_arguments import canonical_name, name_in, sizes_of
from .operator import RoundOperator

_DEFAULT_MODE = cast(DirectMLMode, DEFAULT_MODE)


@dataclass(frozen=True, slots=True)
class DirectMLRound(RoundOperator):
    """DirectML's ELEMENT_WISE_ROUND, on float32 and float16.

    ``rounding_mode`` is ``HALVES_TO_NEAREST_EVEN``, ``TOWARD_ZERO`` or
    ``TOWARD_INFINITY`` (nearest, halves away from zero), with or without
    ``DML_ROUNDING_MODE_``, or the C integer. ``feature_level`` decides the rank: exactly 4 at
    ``2_1``, 1 to 8 from ``3_0`` on. ``tensors`` are the InputTensor and the OutputTensor of
    DxDispatch's JSON.
    """

    _paths: ClassVar[Mapping[str, str]] = {
        "rounding_mode": "desc.RoundingMode",
        "feature_level": "feature_level",
    }

    rounding_mode: DirectMLMode = _DEFAULT_MODE
    feature_level: FeatureLevel = "3_0"
    tensors: tuple[AnyTensorDesc, AnyTensorDesc] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> DirectMLDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on two equal packed ones."""
        stated = self.tensors if dtype is None and shape is None else None
        if stated is None:
            tensor = {
                "DataType": name_in(canonical_name(dtype), "directml"),
                "Sizes": sizes_of(shape),
            }
        return DirectMLDescriptor.read(
            {
                "feature_level": self.feature_level,
                "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
                "desc": {
                    "InputTensor": tensor if stated is None else stated[0],
                    "OutputTensor": tensor if stated is None else stated[1],
                    "RoundingMode": self.rounding_mode,
                },
            }
        )

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """Four dimensions, which every feature level accepts."""
        return (1, 1, 1, count)
