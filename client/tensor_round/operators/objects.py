"""Operators as objects: what to round by, in each dialect's own words.

An operator may be of any tensor; :meth:`RoundOperator.descriptor` makes the descriptor
for one, through the same models as the service's, so that what the service would
refuse is refused here first, with the same :class:`InvalidDescriptor`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, cast

from ..call import RoundCall
from ..errors import InvalidArgument
from ..names import (
    AnyDType,
    DirectMLMode,
    DTypeName,
    FeatureLevel,
    OnnxOpset,
    OpenVINOMode,
    RoundingName,
)
from ..rounding import Rounding
from ..wire import native
from . import Descriptor, DirectMLDescriptor, IEEE754Descriptor, OnnxDescriptor, OpenVINODescriptor
from .directml import DEFAULT_MODE
from .directml_tensor import AnyTensorDesc
from .tensor_names import canonical_name, name_in, sizes_of

_DEFAULT_MODE = cast(DirectMLMode, DEFAULT_MODE)
#: Plans kept; a header has a few hundred bytes.
_CACHED_PLANS = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """A descriptor as it is sent, and what it means.

    ``descriptor`` is the value of the Operator-Descriptor header, ``call`` what it
    resolves to. ``headers`` are those that every request of it has, and ``stated`` is
    the Output-Descriptor of its answers, as this project's service writes it.
    """

    descriptor: bytes
    call: RoundCall
    headers: tuple[tuple[bytes, bytes], ...]
    stated: str


def plan_of(descriptor: Descriptor) -> Plan:
    """The plan for a descriptor; raises :class:`InvalidDescriptor`."""
    call, text = descriptor.resolve(), descriptor.to_json()
    headers = (
        (native.CONTENT_TYPE.encode(), native.OCTET_STREAM.encode()),
        (native.OPERATOR_DESCRIPTOR.encode(), text),
    )
    return Plan(text, call, headers, native.output_descriptor(call.output).decode())


class RoundOperator(abc.ABC):
    """One dialect's rounding operator, with its attributes; immutable and hashable.

    Attributes are held as the dialect's canonical names, however they were spelled: operators
    that mean the same are equal.

    One that was read from where it was written down may state a tensor; that is no part
    of what it is compared by.
    """

    __slots__ = ()

    #: Where the dialect's descriptor has each attribute.
    _paths: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        # Attributes are checked on a tensor that every version of every dialect takes.
        descriptor = self.descriptor("float32", (1, 1, 1, 1))
        descriptor.resolve()
        for attribute, path in self._paths.items():
            object.__setattr__(self, attribute, attrgetter(path)(descriptor))

    @abc.abstractmethod
    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> Descriptor:
        """The descriptor of the operator on a packed tensor, or on the one that it states.

        ``dtype`` is a canonical name, or a NumPy type in either byte order. Raises
        :class:`InvalidDescriptor` for a tensor that the operator does not take, and
        :class:`InvalidArgument` where neither the arguments nor the operator say what
        the tensor is.
        """

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape that the operator takes for ``count`` elements in a row."""
        return (count,)

    def plan(self, dtype: str, shape: tuple[int, ...]) -> Plan:
        """The plan for a packed tensor; raises :class:`InvalidDescriptor`."""
        return _plan_for(self, dtype, shape)


@lru_cache(maxsize=_CACHED_PLANS)
def _plan_for(by: RoundOperator, dtype: str, shape: tuple[int, ...]) -> Plan:
    # Any other name is the dialect's model's to refuse.
    return plan_of(by.descriptor(cast(DTypeName, dtype), shape))


@dataclass(frozen=True, slots=True)
class IEEE754Round(RoundOperator):
    """roundToIntegral of IEEE 754-2019, on every dtype.

    ``rounding`` is a :class:`Rounding` or its name: ``ties_to_even``, ``ties_to_away``,
    ``toward_zero``, ``toward_positive`` or ``toward_negative``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"rounding": "rounding"}

    rounding: RoundingName | Rounding = "ties_to_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> IEEE754Descriptor:
        """The ``ieee754`` descriptor for a packed tensor."""
        tensor = {"dtype": canonical_name(dtype), "shape": sizes_of(shape)}
        return IEEE754Descriptor.read({"rounding": self.rounding, "input": tensor})


@dataclass(frozen=True, slots=True)
class OnnxRound(RoundOperator):
    """ONNX Round: halves to even, on the floats that the operator set's version takes.

    ``domain`` is the default one, under either of its names.
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


@dataclass(frozen=True, slots=True)
class OpenVINORound(RoundOperator):
    """OpenVINO Round-5; ``mode`` is ``half_to_even`` or ``half_away_from_zero``.

    ``dtype`` and ``shape`` are what a layer of an IR states of its tensor.
    """

    _paths: ClassVar[Mapping[str, str]] = {"mode": "mode"}

    mode: OpenVINOMode = "half_to_even"
    dtype: DTypeName | None = field(default=None, compare=False, repr=False, kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OpenVINODescriptor:
        """The ``openvino`` descriptor for a tensor; what is not given is the layer's."""
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


@dataclass(frozen=True, slots=True)
class DirectMLRound(RoundOperator):
    """DirectML's ELEMENT_WISE_ROUND, on float32 and float16.

    ``rounding_mode`` is ``HALVES_TO_NEAREST_EVEN``, ``TOWARD_ZERO`` or
    ``TOWARD_INFINITY`` (which is nearest, halves away from zero), with or without
    ``DML_ROUNDING_MODE_``, or the C integer. ``feature_level`` decides which ranks
    there are: exactly 4 at ``2_1``, 1 to 8 from ``3_0`` on. ``tensors`` are the
    InputTensor and the OutputTensor that DxDispatch's JSON states.
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
        """The ``directml`` descriptor: both tensors as stated, or packed and alike."""
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
        """Four dimensions, which every feature level takes."""
        return (1, 1, 1, count)


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


def operator_of(descriptor: Descriptor) -> RoundOperator:
    """The operator that a descriptor puts to its tensor."""
    match descriptor:
        case IEEE754Descriptor():
            return IEEE754Round(Rounding(descriptor.rounding))
        case OnnxDescriptor():
            return OnnxRound(cast(OnnxOpset, descriptor.opset_version), domain=descriptor.domain)
        case OpenVINODescriptor():
            return OpenVINORound(cast(OpenVINOMode, descriptor.mode))
        case DirectMLDescriptor(desc=desc, feature_level=level):
            return DirectMLRound(cast(DirectMLMode, desc.RoundingMode), cast(FeatureLevel, level))


@lru_cache(maxsize=len(Rounding))
def _by_rounding(rounding: RoundingName | Rounding) -> IEEE754Round:
    return IEEE754Round(rounding)
