"""WebNN's ``quantizeLinear`` and ``dequantizeLinear``, as descriptors.

A scale and a zero point have the operand's rank, and each of their sizes divides the operand's:
the elements of a block share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call, Parameters
from ...dtypes import BY_NAME, AnyDType
from ...errors import Fault, InvalidDescriptor
from ...functions import Dequantize, Linear, Quantize
from ...layout import Layout
from ..dialect import DEQUANTIZATION, QUANTIZATION, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor, Strict, enumeration
from ..operator import (
    Kind,
    LinearOperator,
    TensorType,
    canonical_name,
    check_target,
    needed,
    sizes_of,
)
from ..webnn_tensors import SIZES, Shape

_FLOATS, _CODES = ("float32", "float16"), ("uint8", "int8", "uint32", "int32")
_TITLES = {name: f"webnn: {name}" for name in ("quantizeLinear", "dequantizeLinear")}
#: The types of the operand, the scale and the result.
VERSIONS = {
    name: Version("1", _TITLES[name], source, scales=_FLOATS, results=result)
    for name, source, result in (
        ("quantizeLinear", _FLOATS, _CODES),
        ("dequantizeLinear", _CODES, _FLOATS),
    )
}


class WebNNLinearTensor(Strict):
    """The MLOperandDescriptor of an operand of a linear quantization."""

    dataType: Annotated[str, OneOf("webnn: quantization", enumeration((*_FLOATS, *_CODES)))]
    shape: Shape = Field(description=SIZES)


class _LinearDescriptor(OperatorDescriptor):
    dialect: Literal["webnn"] = "webnn"
    op: str
    input: WebNNLinearTensor
    scale: WebNNLinearTensor = Field(
        description="Of the input's rank; each size divides the input's. Of a quantization it has "
        "the input's type, of a dequantization the result's."
    )
    zeroPoint: WebNNLinearTensor = Field(
        description="Of the scale's shape. Its type is that of the integers."
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        quantizes, title = self.op == "quantizeLinear", _TITLES[self.op]
        codes = self.zeroPoint.dataType
        result = codes if quantizes else self.scale.dataType
        place, same = ("scale", self.scale) if quantizes else ("zeroPoint", self.zeroPoint)
        tensors = (
            ("input", self.input, VERSIONS[self.op].dtypes),
            ("scale", self.scale, _FLOATS),
            ("zeroPoint", self.zeroPoint, _CODES),
        )
        faults = [
            Fault(
                (name, "dataType"),
                f"{title} takes {', '.join(taken)} here, got {tensor.dataType}",
            )
            for name, tensor, taken in tensors
            if tensor.dataType not in taken
        ]
        if not faults and same.dataType != self.input.dataType:
            rule = f"{title}: must be the input's type, {self.input.dataType}"
            faults.append(Fault((place, "dataType"), f"{rule}, got {same.dataType}"))
        sizes, counts = list(self.input.shape), list(self.scale.shape)
        if len(sizes) != len(counts) or any(map(mod, sizes, counts)):
            rule = f"{title}: must have the input's rank, and sizes that divide {sizes}"
            faults.append(Fault(("scale", "shape"), f"{rule}, got {counts}"))
        elif list(self.zeroPoint.shape) != counts:
            rule = f"{title}: must be the scale's, {counts}"
            faults.append(Fault(("zeroPoint", "shape"), f"{rule}, got {[*self.zeroPoint.shape]}"))
        if faults:
            raise InvalidDescriptor.of(faults)
        source = Layout.of(BY_NAME[self.input.dataType], sizes, loc=("input",))
        scale = Layout.of(BY_NAME[self.scale.dataType], counts, loc=("scale",))
        names = ("input", "scale", "zeroPoint")
        parameters = Parameters.of(sizes, scale, BY_NAME[codes], names=names)
        function: Linear = Quantize() if quantizes else Dequantize()
        output = Layout.of(BY_NAME[result], sizes)
        return Call(function, source, output, source.byte_length, parameters)


class WebNNQuantizeLinearDescriptor(_LinearDescriptor):
    """WebNN quantizeLinear: to integers, by a scale and a zero point."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "webnn",
        "op": "quantizeLinear",
        "input": {"dataType": "float32", "shape": [2, 3]},
        "scale": {"dataType": "float32", "shape": [1, 3]},
        "zeroPoint": {"dataType": "int8", "shape": [1, 3]},
    }

    op: Literal["quantizeLinear"]


class WebNNDequantizeLinearDescriptor(_LinearDescriptor):
    """WebNN dequantizeLinear: from integers, by a scale and a zero point."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "webnn",
        "op": "dequantizeLinear",
        "input": {"dataType": "int8", "shape": [2, 3]},
        "scale": {"dataType": "float32", "shape": [1, 3]},
        "zeroPoint": {"dataType": "int8", "shape": [1, 3]},
    }

    op: Literal["dequantizeLinear"]


class _WebNNLinear(LinearOperator):
    __slots__ = ()

    _op: ClassVar[str]
    _form: ClassVar[type[_LinearDescriptor]]

    def descriptor(
        self,
        dtype: AnyDType | None = None,
        shape: Sequence[int] | None = None,
        scale: TensorType | None = None,
        zero_point: TensorType | None = None,
    ) -> OperatorDescriptor:
        """The ``webnn`` descriptor on packed tensors.

        Without dimensions a scale is for the whole tensor.
        """
        sizes = sizes_of(shape)
        document: dict[str, Any] = {
            "op": self._op,
            "input": {"dataType": canonical_name(dtype), "shape": sizes},
        }
        for name, tensor in (("scale", needed(scale)), ("zeroPoint", zero_point)):
            if tensor is not None:
                counts = sizes_of(tensor[1]) or (1,) * len(sizes)
                document[name] = {"dataType": canonical_name(tensor[0]), "shape": counts}
        descriptor = self._form.read(document)
        check_target(self, descriptor)
        return descriptor


@dataclass(frozen=True, slots=True)
class WebNNQuantizeLinear(_WebNNLinear):
    """WebNN quantizeLinear to the type ``to``, by default that of the zero point."""

    kind: ClassVar[Kind] = Kind.QUANTIZE
    _op: ClassVar[str] = "quantizeLinear"
    _form: ClassVar[type[_LinearDescriptor]] = WebNNQuantizeLinearDescriptor

    to: AnyDType | None = None


@dataclass(frozen=True, slots=True)
class WebNNDequantizeLinear(_WebNNLinear):
    """WebNN dequantizeLinear to the type ``to``, by default that of the scale."""

    kind: ClassVar[Kind] = Kind.DEQUANTIZE
    _op: ClassVar[str] = "dequantizeLinear"
    _form: ClassVar[type[_LinearDescriptor]] = WebNNDequantizeLinearDescriptor

    to: AnyDType | None = None


def _row(made: type[_WebNNLinear], model: str, unspecified: dict[str, str]) -> Operator:
    name = made._op
    types = (*_FLOATS, *_CODES)
    return Operator(
        name=name,
        descriptor=made._form,
        object=made,
        model=ModelNames(model, "input", "output", parameters=("scale", "zeroPoint")),
        words=Words(name),
        versions=(VERSIONS[name],),
        dtypes=enumeration(types),
        target_field=f"{'zeroPoint' if name == 'quantizeLinear' else 'scale'}.dataType",
        unspecified=unspecified,
    )


#: The operators' rows in the dialect's table.
ROWS = (
    _row(
        WebNNQuantizeLinear,
        "webnn_quantize_linear",
        QUANTIZATION,
    ),
    _row(WebNNDequantizeLinear, "webnn_dequantize_linear", DEQUANTIZATION),
)
