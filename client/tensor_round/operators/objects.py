"""Operators as objects: each dialect's rounding operator with its attributes.

An operator is independent of any tensor. :meth:`RoundOperator.descriptor` makes the descriptor of
the operator on one tensor. It validates by the service's own models, so an invalid descriptor is
refused before it is sent, with the same :class:`InvalidDescriptor`.
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
from .tensor_arguments import canonical_name, name_in, sizes_of

_DEFAULT_MODE = cast(DirectMLMode, DEFAULT_MODE)
#: Prepared descriptors that are cached; each has a few hundred bytes.
_CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True)
class PreparedDescriptor:
    """A descriptor, resolved, with everything that its requests and responses have in common.

    ``descriptor`` is the value of the Operator-Descriptor header, and ``call`` is the call that it
    resolves to. ``headers`` are the fixed request headers. ``output_descriptor`` is the
    response's Output-Descriptor, as this project's service writes it.
    """

    descriptor: bytes
    call: RoundCall
    headers: tuple[tuple[bytes, bytes], ...]
    output_descriptor: str


def prepare_descriptor(descriptor: Descriptor) -> PreparedDescriptor:
    """Resolve a descriptor and encode its headers; raises :class:`InvalidDescriptor`."""
    call, text = descriptor.resolve(), descriptor.to_json()
    headers = (
        (native.CONTENT_TYPE.encode(), native.OCTET_STREAM.encode()),
        (native.OPERATOR_DESCRIPTOR.encode(), text),
    )
    output = native.output_descriptor(call.output).decode()
    return PreparedDescriptor(text, call, headers, output)


class RoundOperator(abc.ABC):
    """One dialect's rounding operator, with its attributes; immutable and hashable.

    Attributes are stored by their canonical names, so operators with the same meaning are equal.
    An operator that was read from another format may state a tensor, which comparison ignores.
    """

    __slots__ = ()

    #: The path of each attribute in the dialect's descriptor.
    _paths: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        # Attributes are checked on a tensor that every version of every dialect accepts.
        descriptor = self.descriptor("float32", (1, 1, 1, 1))
        descriptor.resolve()
        for attribute, path in self._paths.items():
            object.__setattr__(self, attribute, attrgetter(path)(descriptor))

    @abc.abstractmethod
    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> Descriptor:
        """The descriptor of the operator on a packed tensor, or on the tensor that it states.

        ``dtype`` is a canonical name, or a NumPy dtype in either byte order. Raises
        :class:`InvalidDescriptor` for a tensor that the operator does not accept, and
        :class:`InvalidArgument` if neither the arguments nor the operator state the tensor.
        """

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape of ``count`` elements that the operator accepts."""
        return (count,)

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> PreparedDescriptor:
        """The prepared descriptor of a packed tensor; raises :class:`InvalidDescriptor`."""
        return _prepared(self, dtype, shape)


@lru_cache(maxsize=_CACHE_SIZE)
def _prepared(operator: RoundOperator, dtype: str, shape: tuple[int, ...]) -> PreparedDescriptor:
    # The dialect's model refuses any other name.
    return prepare_descriptor(operator.descriptor(cast(DTypeName, dtype), shape))


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


def as_operator(
    operator: RoundOperator | RoundingName | Rounding | None,
    rounding: RoundingName | Rounding | None = None,
) -> RoundOperator:
    """The operator that a caller gave, or that of a direction; ``ties_to_even`` if neither.

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


@lru_cache(maxsize=len(Rounding))
def _by_rounding(rounding: RoundingName | Rounding) -> IEEE754Round:
    return IEEE754Round(rounding)
