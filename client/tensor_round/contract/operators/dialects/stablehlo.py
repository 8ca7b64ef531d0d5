"""The ``stablehlo`` dialect: StableHLO's rounding, ``convert`` and ``reduce_precision``.

The operand is a tensor type in StableHLO's syntax, ``tensor<2x3xf16>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import AnyDType
from ...errors import InvalidDescriptor
from ...functions import ReducePrecision
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, NAN_TO_FLOAT, Dialect, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor
from ..operator import CastOperator, RoundOperator
from ..stablehlo_types import OPERAND, PATTERN, TensorText, layout_of, spellings, tensor_text
from .mlir import DTYPES as DTYPES
from .mlir import FLOAT_TYPES
from .stablehlo_uniform import (
    ROWS,
    StableHLOUniformDequantize,
    StableHLOUniformDequantizeDescriptor,
    StableHLOUniformQuantize,
    StableHLOUniformQuantizeDescriptor,
)

__all__ = [
    "StableHLOConvert",
    "StableHLOConvertDescriptor",
    "StableHLODescriptor",
    "StableHLOReducePrecision",
    "StableHLOReducePrecisionDescriptor",
    "StableHLORound",
    "StableHLOUniformDequantize",
    "StableHLOUniformDequantizeDescriptor",
    "StableHLOUniformQuantize",
    "StableHLOUniformQuantizeDescriptor",
]

#: With or without the prefix of its dialect in MLIR.
StableHLOOp = Literal[
    "round_nearest_even", "round_nearest_afz", "floor", "ceil",
    "stablehlo.round_nearest_even", "stablehlo.round_nearest_afz",
    "stablehlo.floor", "stablehlo.ceil",
]  # fmt: skip
MODES = {
    "round_nearest_even": Rounding.TIES_TO_EVEN,
    "round_nearest_afz": Rounding.TIES_TO_AWAY,
    "floor": Rounding.TOWARD_NEGATIVE,
    "ceil": Rounding.TOWARD_POSITIVE,
}
CONVERT_DTYPES = {
    **FLOAT_TYPES,
    **{
        f"{mark}i{width}": f"{sign}int{width}"
        for mark, sign in (("", ""), ("u", "u"))
        for width in (4, 8, 16, 32, 64)
    },
}
VERSION = Version("1", "stablehlo: rounding", tuple(DTYPES))
CONVERT_VERSION = Version("1", "stablehlo: convert", tuple(CONVERT_DTYPES))
REDUCE_VERSION = Version("1", "stablehlo: reduce_precision", tuple(DTYPES))

#: An ``i32`` attribute.
_Bits = Annotated[int, Field(lt=2**31)]


class StableHLODescriptor(OperatorDescriptor):
    """StableHLO round_nearest_even or round_nearest_afz: to the nearest integer; floor, ceil."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "round_nearest_afz",
        "operand": "tensor<2x3xf16>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", spellings(*MODES))] = Field(
        description="The operation, with or without the prefix stablehlo."
    )
    operand: TensorText = Field(
        description=f"{OPERAND}one of {', '.join(DTYPES)}.", json_schema_extra=PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = layout_of(self.operand, VERSION, DTYPES)
        return Call.packed(MODES[self.op], source.dtype.name, source.shape)


class StableHLOConvertDescriptor(OperatorDescriptor):
    """StableHLO convert: to another element type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "convert",
        "operand": "tensor<2x3xf32>",
        "result": "tensor<2x3xf16>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", spellings("convert"))]
    operand: TensorText = Field(
        description=f"{OPERAND}one of {', '.join(CONVERT_DTYPES)}.", json_schema_extra=PATTERN
    )
    result: TensorText = Field(
        description="The result's type, of the operand's sizes.", json_schema_extra=PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = layout_of(self.operand, CONVERT_VERSION, CONVERT_DTYPES)
        target = layout_of(self.result, CONVERT_VERSION, CONVERT_DTYPES, "result")
        if source.shape != target.shape:
            rule = "stablehlo: convert: must have the operand's sizes"
            raise InvalidDescriptor.at(("result",), rule)
        return Call.converting(source, target.dtype.name)


class StableHLOReducePrecisionDescriptor(OperatorDescriptor):
    """StableHLO reduce_precision: to fewer bits of exponent and mantissa, in the same type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "reduce_precision",
        "exponent_bits": 5,
        "mantissa_bits": 10,
        "operand": "tensor<2x3xf32>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", spellings("reduce_precision"))]
    exponent_bits: _Bits = Field(ge=1, description="Bits of the exponent, at least 1.")
    mantissa_bits: _Bits = Field(ge=0, description="Bits of the mantissa, at least 0.")
    operand: TensorText = Field(
        description=f"{OPERAND}one of {', '.join(DTYPES)}.", json_schema_extra=PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        function = ReducePrecision(Rounding.TIES_TO_EVEN, self.exponent_bits, self.mantissa_bits)
        return Call.packed_output(function, layout_of(self.operand, REDUCE_VERSION, DTYPES))


@dataclass(frozen=True, slots=True)
class StableHLORound(RoundOperator):
    """StableHLO's rounding, on floats.

    ``op`` is ``round_nearest_even``, ``round_nearest_afz`` (ties away from zero), ``floor`` or
    ``ceil``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: StableHLOOp = "round_nearest_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> StableHLODescriptor:
        """The ``stablehlo`` descriptor for a tensor."""
        operand = tensor_text(FLOAT_TYPES, dtype, shape)
        return StableHLODescriptor.read({"op": self.op, "operand": operand})


@dataclass(frozen=True, slots=True)
class StableHLOConvert(CastOperator):
    """StableHLO convert to the element type ``to``."""

    to: AnyDType

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> StableHLOConvertDescriptor:
        """The ``stablehlo`` descriptor for a tensor."""
        document = {
            "op": "convert",
            "operand": tensor_text(CONVERT_DTYPES, dtype, shape),
            "result": tensor_text(CONVERT_DTYPES, self.to, shape),
        }
        return StableHLOConvertDescriptor.read(document)


@dataclass(frozen=True, slots=True)
class StableHLOReducePrecision(RoundOperator):
    """StableHLO reduce_precision, on floats, to these bits of exponent and mantissa."""

    _paths: ClassVar[Mapping[str, str]] = {
        "exponent_bits": "exponent_bits",
        "mantissa_bits": "mantissa_bits",
    }

    exponent_bits: int
    mantissa_bits: int

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> StableHLOReducePrecisionDescriptor:
        """The ``stablehlo`` descriptor for a tensor."""
        document = {
            "op": "reduce_precision",
            "exponent_bits": self.exponent_bits,
            "mantissa_bits": self.mantissa_bits,
            "operand": tensor_text(FLOAT_TYPES, dtype, shape),
        }
        return StableHLOReducePrecisionDescriptor.read(document)


DIALECT = Dialect(
    title="StableHLO",
    operator_field="op",
    spellings=spellings(*MODES, "convert", "reduce_precision", *(row.name for row in ROWS)),
    operators=(
        Operator(
            name="round_nearest",
            descriptor=StableHLODescriptor,
            object=StableHLORound,
            model=ModelNames("stablehlo_round_nearest", "operand", "result", "op"),
            words=Words("", ("OP",), ", ".join(MODES), required=1),
            selected_by=tuple(MODES),
            versions=(VERSION,),
            dtypes=DTYPES,
            mode_field="op",
            modes=MODES,
        ),
        Operator(
            name="convert",
            descriptor=StableHLOConvertDescriptor,
            object=StableHLOConvert,
            model=ModelNames("stablehlo_convert", "operand", "result"),
            words=Words("convert"),
            versions=(CONVERT_VERSION,),
            dtypes=CONVERT_DTYPES,
            target_field="result",
            unspecified={
                **FLOAT_TO_INTEGER,
                **NAN_TO_FLOAT,
                "float to float, not representable": "ties_to_even",
                "float to float, out of range": "infinity, or NaN without one",
            },
        ),
        Operator(
            name="reduce_precision",
            descriptor=StableHLOReducePrecisionDescriptor,
            object=StableHLOReducePrecision,
            model=ModelNames("stablehlo_reduce_precision", "operand", "output"),
            words=Words(
                "reduce_precision",
                ("EXPONENT_BITS", "MANTISSA_BITS"),
                required=2,
                are_integers=True,
            ),
            versions=(REDUCE_VERSION,),
            dtypes=DTYPES,
            unspecified={
                "overflow in a type without infinity": "NaN, or without one the largest number"
            },
        ),
        *ROWS,
    ),
)
