"""Operators as objects: what to round by, in each dialect's own words.

An operator knows no tensor; :meth:`RoundOperator.plan` makes the descriptor for
one, through the same models as the service's, so that what the service would
refuse is refused here first, with the same :class:`InvalidDescriptor`.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, cast

from . import dxdispatch, operators
from .call import RoundCall
from .dtypes import BY_NAME
from .errors import Fault, InvalidArgument, InvalidDescriptor
from .names import DirectMLMode, FeatureLevel, OnnxOpset, OpenVINOMode, RoundingName
from .rounding import Rounding
from .wire import native, strictjson

#: Plans kept; a header has a few hundred bytes.
_CACHED_PLANS = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator on a tensor of one dtype and shape.

    ``descriptor`` is the value of the Operator-Descriptor header, ``call`` what it
    resolves to. ``headers`` are those that every request of it has, and ``stated`` is
    the Output-Descriptor of its answers, as this project's service writes it.
    """

    descriptor: bytes
    call: RoundCall
    headers: tuple[tuple[bytes, bytes], ...]
    stated: str


class RoundOperator(abc.ABC):
    """One dialect's rounding operator, with its attributes; immutable and hashable.

    Attributes are held as the dialect's canonical names, however they were spelled: operators
    that mean the same are equal.
    """

    __slots__ = ()

    #: Where the dialect's descriptor has each attribute.
    _paths: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        # Attributes are checked on a tensor that every version of every dialect takes.
        descriptor = operators.validate(self.document("float32", (1, 1, 1, 1)))
        descriptor.resolve()
        for attribute, path in self._paths.items():
            object.__setattr__(self, attribute, attrgetter(path)(descriptor))

    @abc.abstractmethod
    def document(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """The descriptor for a packed tensor of a canonical dtype, not validated."""

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape that the operator takes for ``count`` elements in a row."""
        return (count,)

    def plan(self, dtype: str, shape: tuple[int, ...]) -> Plan:
        """The validated descriptor for a packed tensor; raises :class:`InvalidDescriptor`."""
        return _cached_plan(self, dtype, shape)


def _make_plan(operator: RoundOperator, dtype: str, shape: tuple[int, ...]) -> Plan:
    document = operator.document(dtype, shape)
    call = operators.validate(document).resolve()
    descriptor = strictjson.dumps(document)
    headers = (
        (native.CONTENT_TYPE.encode(), native.OCTET_STREAM.encode()),
        (native.OPERATOR_DESCRIPTOR.encode(), descriptor),
    )
    return Plan(descriptor, call, headers, native.output_descriptor(call.output).decode())


_cached_plan = lru_cache(maxsize=_CACHED_PLANS)(_make_plan)


@dataclass(frozen=True, slots=True)
class IEEE754Round(RoundOperator):
    """roundToIntegral of IEEE 754-2019, on every dtype.

    ``rounding`` is a :class:`Rounding` or its name: ``ties_to_even``, ``ties_to_away``,
    ``toward_zero``, ``toward_positive`` or ``toward_negative``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"rounding": "rounding"}

    rounding: RoundingName | Rounding = "ties_to_even"

    def document(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """An ``ieee754`` descriptor."""
        return {
            "dialect": "ieee754",
            "rounding": self.rounding,
            "input": {"dtype": dtype, "shape": list(shape)},
        }


@dataclass(frozen=True, slots=True)
class OnnxRound(RoundOperator):
    """ONNX Round: halves to even, on the floats that the operator set's version takes."""

    opset_version: OnnxOpset = 22

    def document(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """An ``onnx`` descriptor."""
        return {
            "dialect": "onnx",
            "op_type": "Round",
            "opset_version": self.opset_version,
            "input": {"elem_type": _name(dtype, "onnx"), "shape": list(shape)},
        }

    @classmethod
    def from_onnx(cls, node: Any, opset: int) -> OnnxRound:
        """The operator that a node of an ONNX model is, under the model's default opset.

        ``node`` is an ``onnx.NodeProto``, or anything with its fields. Raises
        :class:`InvalidDescriptor` where it is not ONNX's Round as that opset has it.
        """
        faults = [
            Fault((field,), f"onnx: Round {rule}")
            for field, broken, rule in (
                ("op_type", node.op_type != "Round", "is what can be read, got another operator"),
                ("domain", node.domain not in ("", "ai.onnx"), "is of the default domain"),
                ("attribute", len(node.attribute) > 0, "has no attributes"),
                ("input", len(node.input) != 1, "has exactly one input"),
                ("output", len(node.output) != 1, "has exactly one output"),
            )
            if broken
        ]
        if faults:
            raise InvalidDescriptor.of(faults)
        return cls(opset_version=cast(OnnxOpset, opset))


@dataclass(frozen=True, slots=True)
class OpenVINORound(RoundOperator):
    """OpenVINO Round-5; ``mode`` is ``half_to_even`` or ``half_away_from_zero``."""

    _paths: ClassVar[Mapping[str, str]] = {"mode": "data.mode"}

    mode: OpenVINOMode = "half_to_even"

    def document(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """An ``openvino`` descriptor."""
        return {
            "dialect": "openvino",
            "type": "Round",
            "version": "opset5",
            "data": {"mode": self.mode},
            "input": {"element_type": _name(dtype, "openvino"), "shape": list(shape)},
        }


@dataclass(frozen=True, slots=True)
class DirectMLRound(RoundOperator):
    """DirectML's ELEMENT_WISE_ROUND, on float32 and float16.

    ``rounding_mode`` is ``HALVES_TO_NEAREST_EVEN``, ``TOWARD_ZERO`` or
    ``TOWARD_INFINITY`` (which is nearest, halves away from zero), with or without
    ``DML_ROUNDING_MODE_``, or the C integer. ``feature_level`` decides which ranks
    there are: exactly 4 at ``2_1``, 1 to 8 from ``3_0`` on.
    """

    _paths: ClassVar[Mapping[str, str]] = {
        "rounding_mode": "desc.RoundingMode",
        "feature_level": "feature_level",
    }

    rounding_mode: DirectMLMode = "HALVES_TO_NEAREST_EVEN"
    feature_level: FeatureLevel = "3_0"

    def document(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """A ``directml`` descriptor, input and output alike."""
        tensor = {"DataType": _name(dtype, "directml"), "Sizes": list(shape)}
        return {
            "dialect": "directml",
            "feature_level": self.feature_level,
            "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
            "desc": {
                "InputTensor": tensor,
                "OutputTensor": tensor,
                "RoundingMode": self.rounding_mode,
            },
        }

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """Four dimensions, which every feature level takes."""
        return (1, 1, 1, count)

    @classmethod
    def from_dxdispatch(
        cls,
        document: str | bytes | os.PathLike[str] | Mapping[str, Any],
        feature_level: FeatureLevel = "3_0",
    ) -> DirectMLRound:
        """The operator in DxDispatch's JSON.

        ``document`` is the JSON, as text, a path or parsed: an operator (``type`` and
        ``desc``), or a whole model whose ``dispatchables`` have one rounding operator.
        Comments and trailing commas are passed over, as DxDispatch does.
        The tensors it describes must be lawful, but the operator serves any others too.
        Raises :class:`InvalidDescriptor`, :class:`MalformedJSON` where it is no JSON, and
        :class:`InvalidArgument` for a file that cannot be read.
        """
        operator = dxdispatch.read(document)
        descriptor = operators.validate(
            {
                "dialect": "directml",
                "feature_level": feature_level,
                **{key: operator[key] for key in ("type", "desc") if key in operator},
            }
        )
        descriptor.resolve()
        assert isinstance(descriptor, operators.DirectMLDescriptor)
        return cls(
            cast(DirectMLMode, descriptor.desc.RoundingMode),
            cast(FeatureLevel, descriptor.feature_level),
        )


def as_operator(
    operator: RoundOperator | RoundingName | Rounding | None,
    rounding: RoundingName | Rounding | None = None,
) -> RoundOperator:
    """The operator that a caller named, by itself or by its IEEE 754 direction; one of the two.

    Neither is ``ties_to_even``. Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument`
    for both.
    """
    if rounding is not None:
        if operator is not None:
            raise InvalidArgument("rounding is the operator's own: give one of the two")
        operator = rounding
    if operator is None:
        operator = "ties_to_even"
    if isinstance(operator, RoundOperator):
        return operator
    return _by_rounding(operator) if isinstance(operator, str) else IEEE754Round(operator)


@lru_cache(maxsize=len(Rounding))
def _by_rounding(rounding: RoundingName | Rounding) -> IEEE754Round:
    return IEEE754Round(rounding)


def _name(dtype: str, dialect: str) -> str:
    """What the dialect calls a dtype; its model refuses the canonical name of one it lacks."""
    row = BY_NAME.get(dtype)
    name: str | None = getattr(row, dialect) if row is not None else None
    return dtype if name is None else name


from_onnx = OnnxRound.from_onnx
from_dxdispatch = DirectMLRound.from_dxdispatch
