"""Operators as objects: each dialect's rounding operator with its attributes.

An operator is independent of any tensor. :meth:`RoundOperator.descriptor` makes the descriptor of
the operator on one tensor. It validates by the service's own models, so an invalid descriptor is
refused before it is sent, with the same :class:`InvalidDescriptor`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from ...errors import InvalidArgument
from ...names import (
    ArrayAPIFunction,
    DirectMLMode,
    FeatureLevel,
    OnnxOpset,
    OpenVINOMode,
    RoundingName,
    StableHLOOp,
)
from ...rounding import Rounding
from .. import (
    ArrayAPIDescriptor,
    Descriptor,
    DirectMLDescriptor,
    IEEE754Descriptor,
    OnnxDescriptor,
    OpenVINODescriptor,
    StableHLODescriptor,
    WebNNDescriptor,
)
from .array_api import ArrayAPIRound
from .directml import DirectMLRound
from .ieee754 import IEEE754Round
from .onnx import OnnxRound
from .openvino import OpenVINORound
from .operator import PreparedDescriptor, RoundOperator, prepare_descriptor
from .stablehlo import StableHLORound
from .webnn import WebNNRoundEven

__all__ = [
    "ArrayAPIRound",
    "DirectMLRound",
    "IEEE754Round",
    "OnnxRound",
    "OpenVINORound",
    "PreparedDescriptor",
    "RoundOperator",
    "StableHLORound",
    "WebNNRoundEven",
    "as_operator",
    "operator_of",
    "prepare_descriptor",
]


def as_operator(
    operator: RoundOperator | RoundingName | Rounding | None,
    rounding: RoundingName | Rounding | None = None,
) -> RoundOperator:
    """The operator that a caller gave, or that of a direction; by default ``ties_to_even``.

    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` if both are given.
    """
    if rounding is not None:
        if operator is not None:
            raise InvalidArgument("an operator has its own rounding: give one of the two")
        operator = rounding
    if operator is None:
        operator = "ties_to_even"
    if isinstance(operator, RoundOperator):
        return operator
    return _by_rounding(operator) if isinstance(operator, str) else IEEE754Round(operator)


def operator_of(descriptor: Descriptor) -> RoundOperator:
    """The operator of a descriptor."""
    match descriptor:
        case IEEE754Descriptor():
            return IEEE754Round(Rounding(descriptor.rounding))
        case OnnxDescriptor():
            return OnnxRound(cast(OnnxOpset, descriptor.opset_version), domain=descriptor.domain)
        case OpenVINODescriptor():
            return OpenVINORound(cast(OpenVINOMode, descriptor.mode))
        case DirectMLDescriptor(desc=desc, feature_level=level):
            return DirectMLRound(cast(DirectMLMode, desc.RoundingMode), cast(FeatureLevel, level))
        case WebNNDescriptor():
            return WebNNRoundEven()
        case StableHLODescriptor():
            return StableHLORound(cast(StableHLOOp, descriptor.op))
        case ArrayAPIDescriptor():
            return ArrayAPIRound(cast(ArrayAPIFunction, descriptor.op))


@lru_cache(maxsize=len(Rounding))
def _by_rounding(rounding: RoundingName | Rounding) -> IEEE754Round:
    return IEEE754Round(rounding)
