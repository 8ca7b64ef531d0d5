"""DirectML's ELEMENT_WISE_QUANTIZE_LINEAR and ELEMENT_WISE_DEQUANTIZE_LINEAR.

All tensors have the same Sizes; a stride of 0 repeats a scale or a zero point along a dimension. In
a payload each tensor ends with its last element, unless TotalTensorSizeInBytes is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call, Parameters
from ...dtypes import AnyDType
from ...errors import Fault, InvalidDescriptor
from ...functions import Dequantize, Linear, Quantize
from ...layout import packed_strides
from ..dialect import (
    DEQUANTIZATION,
    QUANTIZATION,
    ModelNames,
    Operator,
    Version,
    Words,
    overlap_fault,
)
from ..directml_levels import ALL_LEVELS, AnyFeatureLevel, Level, only, versions_by_level
from ..directml_tensors import DTYPES, AnyTensorDesc, BufferDesc
from ..model import OperatorDescriptor, Strict
from ..operator import (
    Kind,
    LinearOperator,
    TensorType,
    canonical_name,
    check_target,
    name_in,
    needed,
    sizes_of,
)

_QUANTIZE, _DEQUANTIZE = "ELEMENT_WISE_QUANTIZE_LINEAR", "ELEMENT_WISE_DEQUANTIZE_LINEAR"
_BYTES = ("INT8", "UINT8")
_INTEGERS = ("INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8")
_SINGLE, _BOTH = ("FLOAT32",), ("FLOAT32", "FLOAT16")
#: By the operator, and the feature level from which it is: the types of operand, scale and result.
_TYPES = {
    _QUANTIZE: {
        "1_0": (_SINGLE, _SINGLE, ("UINT8",)),
        "2_1": (("FLOAT32", "INT32"), _SINGLE, _BYTES),
        "6_0": (("FLOAT32", "FLOAT16", "INT32"), _BOTH, _BYTES),
    },
    _DEQUANTIZE: {
        "1_0": (("UINT8",), _SINGLE, _SINGLE),
        "2_1": (_INTEGERS, _SINGLE, _SINGLE),
        "6_0": (_INTEGERS, _BOTH, _BOTH),
    },
}
VERSIONS: dict[str, dict[str, Version]] = {
    name: versions_by_level(name, "3_0", types) for name, types in _TYPES.items()
}
#: The feature level from which the zero point is optional.
_OPTIONAL_SINCE = "6_2"


class ElementWiseQuantizeLinearDesc(Strict):
    """DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC, and that of DEQUANTIZE_LINEAR."""

    InputTensor: AnyTensorDesc
    ScaleTensor: AnyTensorDesc = Field(
        description="Of the input's Sizes. It has the type of what is not quantized, or FLOAT32 "
        "beside an INT32 input."
    )
    ZeroPointTensor: AnyTensorDesc | None = Field(
        default=None,
        description="Of the input's Sizes, and of the type of what is quantized. It is optional "
        f"from feature level {_OPTIONAL_SINCE} on.",
    )
    OutputTensor: AnyTensorDesc


class _LinearDescriptor(OperatorDescriptor):
    dialect: Literal["directml"] = "directml"
    feature_level: Level
    type: Any
    desc: ElementWiseQuantizeLinearDesc

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        if faults := [*self._faults()]:
            raise InvalidDescriptor.of(faults)
        tensors = {name: tensor for name, tensor, _ in self._tensors()}
        source, scale, target = (tensors[f"{name}Tensor"] for name in ("Input", "Scale", "Output"))
        sizes = source.Sizes
        if not target.layout.is_free_of_overlap:
            *_, loc = next(one for one in self._tensors() if one[0] == "OutputTensor")
            raise InvalidDescriptor.of([overlap_fault("directml", (*loc, "Strides"))])
        given = [scale, *([tensors["ZeroPointTensor"]] if "ZeroPointTensor" in tensors else [])]
        strides = [packed_strides(sizes) if one.Strides is None else one.Strides for one in given]
        repeated = [size == 1 or not any(each) for size, *each in zip(sizes, *strides, strict=True)]
        counts = [1 if is_one else size for size, is_one in zip(sizes, repeated, strict=True)]
        blocks = tuple(size if is_one else 1 for size, is_one in zip(sizes, repeated, strict=True))
        layouts = [one.layout_among(counts) for one in given]
        point = layouts[1] if layouts[1:] else None
        names = ("InputTensor", "ScaleTensor", "ZeroPointTensor")
        parameters = Parameters(layouts[0], point, blocks, names=names)
        function: Linear = Quantize() if self.type == _QUANTIZE else Dequantize()
        input = source.layout_among(sizes)
        return Call(function, input, target.layout, input.byte_length, parameters)

    def _tensors(self) -> Iterator[tuple[str, BufferDesc, tuple[str, ...]]]:
        """The tensors that are given, with their names and paths."""
        for name in type(self.desc).model_fields:
            if (tensor := getattr(self.desc, name)) is not None:
                buffer, path = tensor.buffer
                yield name, buffer, ("desc", name, *path)

    def _faults(self) -> Iterator[Fault]:
        version = VERSIONS[str(self.type)][str(self.feature_level)]
        quantizes = self.type == _QUANTIZE
        found = {name: (tensor, loc) for name, tensor, loc in self._tensors()}
        source, loc = found["InputTensor"]
        yield from version.rank_faults(len(source.Sizes), (*loc, "Sizes"))
        codes = version.results if quantizes else version.dtypes
        takes = {
            "InputTensor": version.dtypes,
            "ScaleTensor": version.scales,
            "ZeroPointTensor": codes,
            "OutputTensor": version.results,
        }
        #: The tensor whose type tells that of another.
        others = {
            "ZeroPointTensor": "OutputTensor" if quantizes else "InputTensor",
            **({"ScaleTensor": "InputTensor"} if quantizes else {"OutputTensor": "ScaleTensor"}),
        }
        for name, (tensor, place) in found.items():
            got = tensor.DataType
            other = others.get(name)
            beside = found[other][0].DataType if other else got
            is_scale = name == "ScaleTensor" and beside == "INT32"
            wanted = "FLOAT32" if is_scale else beside
            is_known = other is None or beside in takes[other]
            if got not in takes[name]:
                rule = f"{version.title} takes {', '.join(takes[name])} here"
                yield Fault((*place, "DataType"), f"got {got}; {rule}")
            elif got != wanted and is_known:
                rule = f"directml: must be {wanted} beside {other} {beside}, got {got}"
                yield Fault((*place, "DataType"), rule)
            if list(tensor.Sizes) != list(source.Sizes):
                rule = "directml: must equal the InputTensor's Sizes; a stride of 0 repeats"
                yield Fault((*place, "Sizes"), rule)
            yield from tensor.faults(place)
        if "ZeroPointTensor" not in found and not self._may_lack_point:
            rule = f"directml: is required before feature level {_OPTIONAL_SINCE}"
            yield Fault(("desc", "ZeroPointTensor"), rule)
        target, place = found["OutputTensor"]
        if target.Flags == "OWNED_BY_DML":
            yield Fault((*place, "Flags"), "directml: OWNED_BY_DML is for inputs only")

    @property
    def _may_lack_point(self) -> bool:
        return ALL_LEVELS[str(self.feature_level)] >= ALL_LEVELS[_OPTIONAL_SINCE]


def _tensor(dtype: str, *strides: int) -> dict[str, Any]:
    own = {"Strides": [*strides]} if strides else {}
    return {"DataType": dtype, "Sizes": [2, 3], **own}


class DirectMLQuantizeLinearDescriptor(_LinearDescriptor):
    """DirectML's ELEMENT_WISE_QUANTIZE_LINEAR, in DxDispatch's form."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "directml",
        "feature_level": "6_2",
        "type": f"DML_OPERATOR_{_QUANTIZE}",
        "desc": {
            "InputTensor": _tensor("FLOAT32"),
            "ScaleTensor": _tensor("FLOAT32", 0, 1),
            "ZeroPointTensor": _tensor("INT8", 0, 1),
            "OutputTensor": _tensor("INT8"),
        },
    }

    type: Annotated[str | int, only(_QUANTIZE)]


class DirectMLDequantizeLinearDescriptor(_LinearDescriptor):
    """DirectML's ELEMENT_WISE_DEQUANTIZE_LINEAR, in DxDispatch's form."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "directml",
        "feature_level": "6_2",
        "type": f"DML_OPERATOR_{_DEQUANTIZE}",
        "desc": {
            "InputTensor": _tensor("INT8"),
            "ScaleTensor": _tensor("FLOAT32", 0, 1),
            "ZeroPointTensor": None,
            "OutputTensor": _tensor("FLOAT32"),
        },
    }

    type: Annotated[str | int, only(_DEQUANTIZE)]


#: The operand, the scale, the zero point if there is one, and the result.
_Tensors = tuple[AnyTensorDesc, AnyTensorDesc, AnyTensorDesc | None, AnyTensorDesc]
_NAMES = tuple(ElementWiseQuantizeLinearDesc.model_fields)


class _DirectMLLinear(LinearOperator):
    __slots__ = ()

    _flat_rank: ClassVar[int] = 4
    _paths: ClassVar[Mapping[str, str]] = {"feature_level": "feature_level"}
    _operator: ClassVar[str]
    _form: ClassVar[type[_LinearDescriptor]]

    feature_level: AnyFeatureLevel
    tensors: _Tensors | None

    def descriptor(
        self,
        dtype: AnyDType | None = None,
        shape: Sequence[int] | None = None,
        scale: TensorType | None = None,
        zero_point: TensorType | None = None,
    ) -> OperatorDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on packed ones.

        A scale without dimensions is for the whole tensor; along one of size 1 it is repeated.
        """
        if self.tensors is not None and dtype is None and shape is None:
            tensors: Sequence[Any] = self.tensors
        else:
            sizes, given = sizes_of(shape), needed(scale)
            told = zero_point if self.kind is Kind.QUANTIZE else given
            to = self.to or ("uint8" if told is None else told[0])
            tensors = [
                _packed(dtype, sizes),
                _repeated("ScaleTensor", given, sizes),
                None if zero_point is None else _repeated("ZeroPointTensor", zero_point, sizes),
                _packed(to, sizes),
            ]
        descriptor = self._form.read(
            {
                "feature_level": self.feature_level,
                "type": f"DML_OPERATOR_{self._operator}",
                "desc": dict(zip(_NAMES, tensors, strict=True)),
            }
        )
        check_target(self, descriptor)
        return descriptor


def _packed(dtype: AnyDType | None, sizes: Sequence[int]) -> dict[str, Any]:
    return {"DataType": name_in(DTYPES, canonical_name(dtype)), "Sizes": sizes}


def _repeated(name: str, tensor: TensorType, sizes: Sequence[int]) -> dict[str, Any]:
    """A tensor of other sizes, repeated by strides of 0."""
    counts = sizes_of(tensor[1]) or (1,) * len(sizes)
    if counts == tuple(sizes):
        return _packed(tensor[0], sizes)
    if len(counts) != len(sizes) or any(
        n not in (1, size) for n, size in zip(counts, sizes, strict=True)
    ):
        rule = f"directml: must be 1 or the input's along each dimension, {[*sizes]}"
        raise InvalidDescriptor.at(("desc", name, "Sizes"), f"{rule}, got {[*counts]}")
    strides = [
        0 if n == 1 else stride for n, stride in zip(counts, packed_strides(counts), strict=True)
    ]
    return {**_packed(tensor[0], sizes), "Strides": strides}


@dataclass(frozen=True, slots=True)
class DirectMLQuantizeLinear(_DirectMLLinear):
    """DirectML's ELEMENT_WISE_QUANTIZE_LINEAR to the type ``to``, by default the zero point's.

    ``tensors`` are the four of DxDispatch's JSON.
    """

    kind: ClassVar[Kind] = Kind.QUANTIZE
    _operator: ClassVar[str] = _QUANTIZE
    _form: ClassVar[type[_LinearDescriptor]] = DirectMLQuantizeLinearDescriptor

    to: AnyDType | None = None
    feature_level: AnyFeatureLevel = "6_2"
    tensors: _Tensors | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DirectMLDequantizeLinear(_DirectMLLinear):
    """DirectML's ELEMENT_WISE_DEQUANTIZE_LINEAR to the type ``to``, by default the scale's.

    ``tensors`` are the four of DxDispatch's JSON.
    """

    kind: ClassVar[Kind] = Kind.DEQUANTIZE
    _operator: ClassVar[str] = _DEQUANTIZE
    _form: ClassVar[type[_LinearDescriptor]] = DirectMLDequantizeLinearDescriptor

    to: AnyDType | None = None
    feature_level: AnyFeatureLevel = "6_2"
    tensors: _Tensors | None = field(default=None, compare=False, repr=False, kw_only=True)


def _row(made: type[_DirectMLLinear], unspecified: Mapping[str, str]) -> Operator:
    name = made._operator
    versions = tuple(VERSIONS[name].values())
    types = {one for v in versions for one in (*v.dtypes, *v.scales, *v.results)}
    return Operator(
        name=name,
        descriptor=made._form,
        object=made,
        model=ModelNames(
            f"directml_{name.lower()}",
            "InputTensor",
            "OutputTensor",
            parameters=("ScaleTensor", "ZeroPointTensor"),
        ),
        words=Words(name.removeprefix("ELEMENT_WISE_"), ("FEATURE_LEVEL",)),
        version_field="feature_level",
        versions=versions,
        dtypes={one: dtype for one, dtype in DTYPES.items() if one in types},
        target_field="desc.OutputTensor.DataType",
        unspecified={**unspecified, "scale of 0": "as IEEE 754 divides and multiplies"},
    )


#: The operators' rows in the dialect's table.
ROWS = (
    _row(DirectMLQuantizeLinear, {**QUANTIZATION, "round": "ties_to_even"}),
    _row(DirectMLDequantizeLinear, DEQUANTIZATION),
)
