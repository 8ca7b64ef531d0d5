"""The ``webnn`` dialect: WebNN's rounding, ``cast`` and linear quantization.

Its fields are the method's name and the MLOperandDescriptor of its input. The specification
allows any rank and, but for ``cast``, two data types; dimensions are at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import BY_NAME, AnyDType
from ...layout import Layout
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, Dialect, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor, Strict, enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, sizes_of
from ..webnn_tensors import SIZES, Shape
from .webnn_linear import (
    ROWS,
    WebNNDequantizeLinear,
    WebNNDequantizeLinearDescriptor,
    WebNNLinearTensor,
    WebNNQuantizeLinear,
    WebNNQuantizeLinearDescriptor,
)

__all__ = [
    "WebNNCast",
    "WebNNCastDescriptor",
    "WebNNCastTensor",
    "WebNNCeil",
    "WebNNDequantizeLinear",
    "WebNNDequantizeLinearDescriptor",
    "WebNNDescriptor",
    "WebNNFloor",
    "WebNNLinearTensor",
    "WebNNQuantizeLinear",
    "WebNNQuantizeLinearDescriptor",
    "WebNNRoundEven",
    "WebNNTensor",
]

#: MLOperandDataType's names, which are also the canonical ones.
_DATA_TYPES = (
    "float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8", "int4", "uint4",
)  # fmt: skip
_ROUNDINGS = {
    "roundEven": Rounding.TIES_TO_EVEN,
    "floor": Rounding.TOWARD_NEGATIVE,
    "ceil": Rounding.TOWARD_POSITIVE,
}
VERSION = Version("1", "webnn: rounding", ("float32", "float16"))
CAST_VERSION = Version("1", "webnn: cast", tuple(name for name in _DATA_TYPES if name in BY_NAME))
_CAST_TYPE = OneOf(CAST_VERSION.title, enumeration(CAST_VERSION.dtypes))


class WebNNTensor(Strict):
    """An MLOperandDescriptor: a tensor packed in C order."""

    dataType: Annotated[str, OneOf(VERSION.title, enumeration(VERSION.dtypes))]
    shape: Shape = Field(description=SIZES)


class WebNNCastTensor(Strict):
    """The MLOperandDescriptor of cast's input."""

    dataType: Annotated[str, _CAST_TYPE]
    shape: Shape = Field(description=SIZES)


class WebNNDescriptor(OperatorDescriptor):
    """WebNN roundEven (to the nearest integer, ties to even), floor or ceil."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "webnn",
        "op": "roundEven",
        "input": {"dataType": "float16", "shape": [2, 3]},
    }

    dialect: Literal["webnn"] = "webnn"
    op: Literal["roundEven", "floor", "ceil"]
    input: WebNNTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        dtype, shape = self.input.dataType, self.input.shape
        return Call.packed(_ROUNDINGS[self.op], dtype, shape, ("input",))


class WebNNCastDescriptor(OperatorDescriptor):
    """WebNN cast: to another data type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "webnn",
        "op": "cast",
        "type": "float16",
        "input": {"dataType": "float32", "shape": [2, 3]},
    }

    dialect: Literal["webnn"] = "webnn"
    op: Literal["cast"]
    type: Annotated[str, _CAST_TYPE] = Field(description="The target type.")
    input: WebNNCastTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = Layout.of(BY_NAME[self.input.dataType], self.input.shape, loc=("input",))
        return Call.converting(source, self.type)


def _tensor(dtype: AnyDType | None, shape: Sequence[int] | None) -> dict[str, Any]:
    return {"dataType": canonical_name(dtype), "shape": sizes_of(shape)}


@dataclass(frozen=True, slots=True)
class _Unary(RoundOperator):
    _op: ClassVar[str]

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> WebNNDescriptor:
        """The ``webnn`` descriptor for a tensor."""
        return WebNNDescriptor.read({"op": self._op, "input": _tensor(dtype, shape)})


@dataclass(frozen=True, slots=True)
class WebNNRoundEven(_Unary):
    """WebNN roundEven: ties to even, on float32 and float16."""

    _op: ClassVar[str] = "roundEven"


@dataclass(frozen=True, slots=True)
class WebNNFloor(_Unary):
    """WebNN floor, on float32 and float16."""

    _op: ClassVar[str] = "floor"


@dataclass(frozen=True, slots=True)
class WebNNCeil(_Unary):
    """WebNN ceil, on float32 and float16."""

    _op: ClassVar[str] = "ceil"


@dataclass(frozen=True, slots=True)
class WebNNCast(CastOperator):
    """WebNN cast to the data type ``to``."""

    to: AnyDType

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> WebNNCastDescriptor:
        """The ``webnn`` descriptor for a tensor."""
        document = {
            "op": "cast",
            "type": canonical_name(self.to),
            "input": _tensor(dtype, shape),
        }
        return WebNNCastDescriptor.read(document)


def _operator(made: type[_Unary], model: str, word: str) -> Operator:
    name = made._op
    return Operator(
        name=name,
        descriptor=WebNNDescriptor,
        object=made,
        model=ModelNames(model, "input", "output"),
        words=Words(word),
        versions=(VERSION,),
        dtypes=enumeration(VERSION.dtypes),
        default_rounding=_ROUNDINGS[name],
    )


DIALECT = Dialect(
    title="WebNN",
    operator_field="op",
    operators=(
        _operator(WebNNRoundEven, "webnn_round_even", ""),
        _operator(WebNNFloor, "webnn_floor", "floor"),
        _operator(WebNNCeil, "webnn_ceil", "ceil"),
        Operator(
            name="cast",
            descriptor=WebNNCastDescriptor,
            object=WebNNCast,
            model=ModelNames("webnn_cast", "input", "output"),
            words=Words("cast"),
            versions=(CAST_VERSION,),
            dtypes=enumeration(CAST_VERSION.dtypes),
            target_field="type",
            unspecified=FLOAT_TO_INTEGER,
        ),
        *ROWS,
    ),
)
