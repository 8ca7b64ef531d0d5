"""``QuantizeLinear`` and ``DequantizeLinear`` of the ONNX operator sets, as descriptors.

They have several tensors: ``x``, its scale, and its zero point if there is one, whose bytes lie in
this order behind each other in a payload. A scale is for the whole tensor if it has one element,
for each index of ``axis`` if it has one dimension, and else for each block of ``block_size``
elements there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call, Parameters
from ...dtypes import BY_NAME, AnyDType, DType
from ...errors import Fault, InvalidDescriptor
from ...functions import Dequantize, Linear, Quantize
from ...layout import Layout
from ..dialect import ModelNames, Operator, Words
from ..model import OneOf, OperatorDescriptor, Shape, Strict
from ..onnx_types import DTYPES, NEWEST_OPSET, OnnxLinearOpset, attribute_spellings, type_spellings
from ..onnx_versions import (
    FLOATS,
    OPSETS_OF_EQUAL_TYPES,
    VERSIONS,
    OnnxOperatorDescriptor,
    types_of,
)
from ..operator import (
    Kind,
    LinearOperator,
    TensorType,
    canonical_name,
    name_in,
    needed,
    sizes_of,
)

_TWO_BITS = "types of two bits are not served"
_SIX_BITS = "types of six bits are not served"
#: The types that any version takes.
_TYPES = tuple(dict.fromkeys((*types_of("QuantizeLinear"), *types_of("DequantizeLinear"))))
#: TensorProto's type of an attribute that is left out.
_UNDEFINED = "UNDEFINED"
_TYPE_OR_NUMBER: dict[str | int, str] = {
    _UNDEFINED: _UNDEFINED,
    0: _UNDEFINED,
    **attribute_spellings(_TYPES),
}
_OTHERS: dict[str | int, str] = {
    **dict.fromkeys(("INT2", "UINT2", "tensor(int2)", "tensor(uint2)", 25, 26), _TWO_BITS),
    **dict.fromkeys(("FLOAT6E2M3", "FLOAT6E3M2", 27, 28), _SIX_BITS),
}


class OnnxLinearTensor(Strict):
    """A tensor of a linear quantization, packed in C order."""

    elem_type: Annotated[str, OneOf("onnx: quantization", type_spellings(_TYPES), _OTHERS)] = Field(
        description="The name in TensorProto.DataType, or the full type string."
    )
    shape: Shape

    def layout(self, *loc: str) -> Layout:
        """The layout; raises :class:`InvalidDescriptor`."""
        return Layout.of(BY_NAME[DTYPES[self.elem_type]], self.shape, loc=loc)


_Type = Annotated[str | int, OneOf("onnx: quantization", _TYPE_OR_NUMBER, _OTHERS)]


class _LinearDescriptor(OnnxOperatorDescriptor):
    opset_version: int = Field(
        description="The version of the default operator set, 10 and up.",
        json_schema_extra={"minimum": 10, "maximum": NEWEST_OPSET},
    )
    axis: int = Field(
        default=1,
        description="The dimension that has several scales, from -rank to rank-1; 1 by default. "
        "It needs opset 13.",
    )
    block_size: int = Field(
        default=0,
        ge=0,
        description="Elements along the axis that share a scale, if the scale has as many "
        "dimensions as the operand. It needs opset 21.",
    )
    output_dtype: _Type = Field(
        default=_UNDEFINED,
        description="The type of the result: a name in TensorProto.DataType, or its number.",
    )
    input: OnnxLinearTensor

    def _call(
        self,
        function: Linear,
        output: DType,
        scale: tuple[str, OnnxLinearTensor],
        zero_point: tuple[str, OnnxLinearTensor | None],
    ) -> Call:
        source, (name, given) = self.input.layout("input"), scale
        blocks, counts = self._blocks(name, given)
        packed = given.layout(name)
        points = None
        if zero_point[1] is not None:
            # ONNX's own node tests have a scalar beside a vector of one.
            one = ((), (1,))
            shapes = tuple(zero_point[1].shape), tuple(given.shape)
            if shapes[0] != shapes[1] and not set(shapes) <= set(one):
                rule = f"must have the shape of {name}, {list(given.shape)}"
                got = [*zero_point[1].shape]
                raise InvalidDescriptor.at((zero_point[0], "shape"), f"{rule}, got {got}")
            points = zero_point[1].layout(zero_point[0]).dtype
        names = ("input", name, zero_point[0])
        scales = Layout.of(packed.dtype, counts)
        parameters = Parameters.of(source.shape, scales, points, blocks, names)
        result = Layout.of(output, source.shape)
        return Call(function, source, result, source.byte_length, parameters)

    def _blocks(self, name: str, scale: OnnxLinearTensor) -> tuple[Sequence[int], Sequence[int]]:
        """The size of a block and the number of scales for each dimension of the operand."""
        shape, sizes, loc = self.input.shape, scale.shape, (name, "shape")
        rank = len(shape)
        whole, ones = [max(size, 1) for size in shape], [1] * rank
        if not sizes or (len(sizes) == 1 and sizes[0] == 1):
            return whole, ones
        if self.opset_version < 13:
            rule = "must be a scalar: several scales need opset 13"
            raise InvalidDescriptor.at(loc, f"{rule}, got {[*sizes]}")
        is_blocked = len(sizes) == rank and self.block_size > 0
        if len(sizes) != 1 and not is_blocked:
            rule = f"must have no dimension, 1, or with block_size the {rank} of input"
            raise InvalidDescriptor.at(loc, f"{rule}, got {[*sizes]}")
        if not -rank <= self.axis < rank:
            rule = f"must be from -{rank} to {rank - 1}, the dimensions of input"
            faults = [Fault(("axis",), f"{rule}, got {self.axis}")]
            if max(sizes) > max(shape, default=0):
                rule = f"must be at most the sizes of input, {[*shape]}"
                faults.append(Fault(loc, f"{rule}, got {[*sizes]}"))
            raise InvalidDescriptor.of(faults)
        axis = self.axis % rank
        if is_blocked:
            counts = list(shape)
            counts[axis] = -(-shape[axis] // self.block_size)
            blocks = [self.block_size if at == axis else 1 for at in range(rank)]
            what = f", for axis {axis} and blocks of {self.block_size}"
        else:
            counts, blocks = ones, whole
            counts[axis], blocks[axis] = shape[axis], 1
            what = f" for each index of axis {axis}"
        want = counts if len(sizes) == rank else [shape[axis]]
        if list(sizes) != want:
            raise InvalidDescriptor.at(loc, f"must be {want}{what}, got {[*sizes]}")
        return blocks, counts


class OnnxQuantizeLinearDescriptor(_LinearDescriptor):
    """ONNX QuantizeLinear: to integers or narrow floats, by a scale and a zero point."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "onnx",
        "op_type": "QuantizeLinear",
        "opset_version": 25,
        "axis": 1,
        "block_size": 0,
        "input": {"elem_type": "FLOAT", "shape": [2, 3]},
        "y_scale": {"elem_type": "FLOAT", "shape": [3]},
        "y_zero_point": {"elem_type": "INT8", "shape": [3]},
    }

    op_type: Literal["QuantizeLinear"]
    saturate: int = Field(
        default=1,
        ge=0,
        le=1,
        description="Whether a number beyond the range of a float of 8 bits becomes the largest "
        "one; 1 by default. It needs opset 19.",
    )
    precision: _Type = Field(
        default=_UNDEFINED,
        description="The type to which quotients are rounded, by default that of y_scale: FLOAT, "
        "FLOAT16 or BFLOAT16. It needs opset 23.",
    )
    y_scale: OnnxLinearTensor
    y_zero_point: OnnxLinearTensor | None = None

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        scale, point = self.y_scale.elem_type, self.y_zero_point
        inferred = "UINT8" if point is None else point.elem_type
        is_inferred = self.output_dtype == _UNDEFINED
        result = inferred if is_inferred else str(self.output_dtype)
        place = ("y_zero_point", "elem_type") if is_inferred else ("output_dtype",)
        faults = [
            *self._type_fault("dtypes", self.input.elem_type, "input", "elem_type"),
            *self._type_fault("scales", scale, "y_scale", "elem_type"),
            *self._type_fault("results", result, *place),
            *self._attribute_faults(),
        ]
        if self.opset_version in OPSETS_OF_EQUAL_TYPES and scale != self.input.elem_type:
            rule = f"must be the type of input, {self.input.elem_type}, before opset 23"
            faults.append(Fault(("y_scale", "elem_type"), f"{rule}, got {scale}"))
        if point is not None and point.elem_type != result:
            rule = f"must be output_dtype, {result}"
            faults.append(Fault(("y_zero_point", "elem_type"), f"{rule}, got {point.elem_type}"))
        precision = str(self.precision)
        if precision not in (_UNDEFINED, "FLOAT", *FLOATS):
            rule = f"must be FLOAT, FLOAT16 or BFLOAT16, got {precision}"
            faults.append(Fault(("precision",), rule))
        if faults:
            raise InvalidDescriptor.of(faults)
        kind = None if precision == _UNDEFINED else BY_NAME[DTYPES[precision]]
        function = Quantize(precision=kind, saturates=self.saturate == 1)
        target = BY_NAME[DTYPES[result]]
        return self._call(function, target, ("y_scale", self.y_scale), ("y_zero_point", point))


class OnnxDequantizeLinearDescriptor(_LinearDescriptor):
    """ONNX DequantizeLinear: from integers or narrow floats, by a scale and a zero point."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "onnx",
        "op_type": "DequantizeLinear",
        "opset_version": 25,
        "axis": 1,
        "input": {"elem_type": "INT8", "shape": [2, 3]},
        "x_scale": {"elem_type": "FLOAT", "shape": [3]},
        "x_zero_point": None,
    }

    op_type: Literal["DequantizeLinear"]
    x_scale: OnnxLinearTensor
    x_zero_point: OnnxLinearTensor | None = None

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        scale, point, source = self.x_scale.elem_type, self.x_zero_point, self.input.elem_type
        result = scale if self.output_dtype == _UNDEFINED else str(self.output_dtype)
        faults = [
            *self._type_fault("dtypes", source, "input", "elem_type"),
            *self._type_fault("scales", scale, "x_scale", "elem_type"),
            *self._attribute_faults(),
        ]
        if not faults:
            faults = self._type_fault("results", result, "output_dtype")
        if point is not None and point.elem_type != source:
            rule = f"must be the type of input, {source}"
            faults.append(Fault(("x_zero_point", "elem_type"), f"{rule}, got {point.elem_type}"))
        if faults:
            raise InvalidDescriptor.of(faults)
        target = BY_NAME[DTYPES[result]]
        return self._call(Dequantize(), target, ("x_scale", self.x_scale), ("x_zero_point", point))


class _OnnxLinear(LinearOperator):
    """What both operators have; attributes stand in a descriptor unless they are the defaults."""

    __slots__ = ()

    _paths: ClassVar[Mapping[str, str]] = {
        name: name for name in ("opset_version", "axis", "block_size", "domain")
    }
    _form: ClassVar[type[_LinearDescriptor]]
    #: The fields of the scale and of the zero point.
    _parameters: ClassVar[tuple[str, str]]

    opset_version: int
    axis: int
    block_size: int
    domain: str

    def descriptor(
        self,
        dtype: AnyDType | None = None,
        shape: Sequence[int] | None = None,
        scale: TensorType | None = None,
        zero_point: TensorType | None = None,
    ) -> OperatorDescriptor:
        """The ``onnx`` descriptor on packed tensors, of types that the opset's operator accepts."""
        given = needed(scale)
        teller = zero_point if self.kind is Kind.QUANTIZE else given
        told = "uint8" if teller is None else canonical_name(teller[0])
        own = (("axis", 1), ("block_size", 0), ("domain", ""))
        attributes = {
            "output_dtype": None if self.to == told else _onnx_name(self.to),
            "saturate": integer_of(getattr(self, "saturate", None)),
            "precision": _onnx_name(getattr(self, "precision", None)),
        }
        tensors = zip(
            ("input", *self._parameters), ((dtype, shape), given, zero_point), strict=True
        )
        descriptor = self._form.read(
            {
                "op_type": type(self).__name__.removeprefix("Onnx"),
                "opset_version": self.opset_version,
                # True and 1.0 equal 1, but the descriptor's model refuses both.
                **{
                    name: value
                    for name, default in own
                    if (value := getattr(self, name)) != default or type(value) is not type(default)
                },
                **{name: value for name, value in attributes.items() if value is not None},
                **{
                    name: {
                        "elem_type": name_in(DTYPES, canonical_name(tensor[0])),
                        "shape": sizes_of(tensor[1]),
                    }
                    for name, tensor in tensors
                    if tensor is not None
                },
            }
        )
        descriptor.resolve()
        return descriptor


def integer_of(value: object) -> object:
    """The integer of a boolean, which ONNX lacks; the model refuses all others but 0 and 1."""
    return int(value) if isinstance(value, bool) else value


def _onnx_name(dtype: AnyDType | None) -> str | None:
    return None if dtype is None else name_in(DTYPES, canonical_name(dtype))


@dataclass(frozen=True, slots=True)
class OnnxQuantizeLinear(_OnnxLinear):
    """ONNX QuantizeLinear to the type ``to``, by the rules and with the types of an opset.

    Without ``to`` the result has the type of the zero point, or is ``uint8``. ``axis`` and
    ``block_size`` tell which elements share a scale. ``saturate`` is for floats of 8 bits, and
    ``precision`` the type of the quotients; None leaves them out. ``domain`` is the default domain.
    """

    kind: ClassVar[Kind] = Kind.QUANTIZE
    _form: ClassVar[type[_LinearDescriptor]] = OnnxQuantizeLinearDescriptor
    _parameters: ClassVar[tuple[str, str]] = ("y_scale", "y_zero_point")
    _optional: ClassVar[tuple[str, ...]] = ("saturate", "precision")

    to: AnyDType | None = None
    opset_version: OnnxLinearOpset = 25
    axis: int = 1
    block_size: int = 0
    saturate: bool | None = None
    precision: AnyDType | None = None
    domain: str = field(default="", compare=False, repr=False, kw_only=True)

    def _store(self, descriptor: OperatorDescriptor) -> None:
        LinearOperator._store(self, descriptor)
        function = descriptor.resolve().function
        if self.precision is not None and isinstance(function, Quantize) and function.precision:
            object.__setattr__(self, "precision", function.precision.name)


@dataclass(frozen=True, slots=True)
class OnnxDequantizeLinear(_OnnxLinear):
    """ONNX DequantizeLinear to the type ``to``, by the rules and with the types of an opset.

    Without ``to`` the result has the type of the scale. ``axis`` and ``block_size`` tell which
    elements share a scale. ``domain`` is the default domain.
    """

    kind: ClassVar[Kind] = Kind.DEQUANTIZE
    _form: ClassVar[type[_LinearDescriptor]] = OnnxDequantizeLinearDescriptor
    _parameters: ClassVar[tuple[str, str]] = ("x_scale", "x_zero_point")

    to: AnyDType | None = None
    opset_version: OnnxLinearOpset = 25
    axis: int = 1
    block_size: int = 0
    domain: str = field(default="", compare=False, repr=False, kw_only=True)


def _row(made: type[_OnnxLinear], unspecified: Mapping[str, str]) -> Operator:
    name = made.__name__.removeprefix("Onnx")
    model = f"onnx_{name.removesuffix('Linear').lower()}_linear"
    return Operator(
        name=name,
        descriptor=made._form,
        object=made,
        model=ModelNames(model, "x", "y", parameters=made._parameters),
        words=Words(name, ("OPSET",), f"10 to {NEWEST_OPSET}", are_integers=True),
        version_field="opset_version",
        versions=VERSIONS[name],
        dtypes={one: DTYPES[one] for one in types_of(name)},
        target_field="output_dtype",
        unspecified=unspecified,
    )


#: The operators' rows in the dialect's table.
ROWS = (
    _row(
        OnnxQuantizeLinear,
        {
            "quotient by a scale that is INT32 or FLOAT8E8M0": "exact",
            "NaN to an integer": "0, plus the zero point",
            "zero point that is not 0 of a float": "added to the quotient, exactly",
        },
    ),
    _row(OnnxDequantizeLinear, {}),
)
