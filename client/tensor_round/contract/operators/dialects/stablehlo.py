"""The ``stablehlo`` dialect: StableHLO's rounding, ``convert`` and ``reduce_precision``.

The operand is a tensor type in StableHLO's syntax, ``tensor<2x3xf16>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, JsonValue

from ...call import Call
from ...dtypes import BY_NAME, AnyDType
from ...errors import InvalidDescriptor
from ...functions import ReducePrecision
from ...layout import SIZE_LIMIT, Layout
from ...quoting import shown
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, NAN_TO_FLOAT, Dialect, ModelNames, Operator, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor
from ..operator import CastOperator, RoundOperator, canonical_name, name_in, sizes_of
from .mlir import DTYPES as DTYPES
from .mlir import FLOAT_TYPES, REJECTED

__all__ = [
    "StableHLOConvert",
    "StableHLOConvertDescriptor",
    "StableHLODescriptor",
    "StableHLOReducePrecision",
    "StableHLOReducePrecisionDescriptor",
    "StableHLORound",
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
_TITLE = "stablehlo"
VERSION = Version("1", "stablehlo: rounding", (), tuple(DTYPES), 0, RANK_LIMIT)
CONVERT_VERSION = Version("1", "stablehlo: convert", (), tuple(CONVERT_DTYPES), 0, RANK_LIMIT)
REDUCE_VERSION = Version("1", "stablehlo: reduce_precision", (), tuple(DTYPES), 0, RANK_LIMIT)

_TENSOR = re.compile(r"tensor<((?:(?:0|[1-9]\d*|\?)x)*)([a-wyz]\w{0,31})>", re.ASCII)
#: An ``i32`` attribute.
_Bits = Annotated[int, Field(lt=2**31)]
_RULE = f"{_TITLE} takes a tensor type such as tensor<2x3xf16>"


def _parts(operand: str) -> tuple[str, tuple[str, ...]]:
    """A type's element type and dimensions; raises :class:`ValueError` for another text."""
    found = _TENSOR.fullmatch(operand)
    if found is None:
        raise ValueError(f"{_RULE}, got {shown(operand)}")
    return found[2], tuple(found[1].split("x")[:-1])


def _static(operand: str) -> str:
    """The type, if all dimensions are static and in range; raises :class:`ValueError`."""
    _, sizes = _parts(operand)
    if "?" in sizes:
        raise ValueError(f"{_TITLE} takes dimensions with sizes here, got {shown(operand)}")
    if len(sizes) > RANK_LIMIT:
        raise ValueError(f"{_TITLE} takes at most {RANK_LIMIT} dimensions here, got {len(sizes)}")
    if any(len(size) > 19 or int(size) >= SIZE_LIMIT for size in sizes):
        raise ValueError(f"{_TITLE} takes sizes of 0 to 2^63-1, got {shown(operand)}")
    return operand


def _layout(
    operand: str, version: Version, dtypes: Mapping[str, str], field: str = "operand"
) -> Layout:
    """The layout of a tensor type; raises :class:`InvalidDescriptor`."""
    element, sizes = _parts(operand)
    if element not in dtypes:
        why = REJECTED.get(element, f"got {element}")
        raise InvalidDescriptor.at((field,), f"{why}; {version.takes}")
    return Layout.of(BY_NAME[dtypes[element]], tuple(map(int, sizes)), loc=(field,))


def _spellings(*names: str) -> dict[str | int, str]:
    return {prefix + name: name for prefix in ("", "stablehlo.") for name in names}


_TensorType = Annotated[str, AfterValidator(_static)]
_PATTERN: dict[str, JsonValue] = {
    "pattern": r"^tensor<((0|[1-9][0-9]*)x)*[a-wyz][A-Za-z0-9_]{0,31}>$"
}
_OPERAND = "The operand's type: sizes and the element type, separated by x. The element type is "


class StableHLODescriptor(OperatorDescriptor):
    """StableHLO round_nearest_even or round_nearest_afz: to the nearest integer; floor, ceil."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "round_nearest_afz",
        "operand": "tensor<2x3xf16>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[str, OneOf("stablehlo", _spellings(*MODES))] = Field(
        description="The operation, with or without the prefix stablehlo."
    )
    operand: _TensorType = Field(
        description=f"{_OPERAND}one of {', '.join(DTYPES)}.", json_schema_extra=_PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = _layout(self.operand, VERSION, DTYPES)
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
    op: Annotated[str, OneOf("stablehlo", _spellings("convert"))]
    operand: _TensorType = Field(
        description=f"{_OPERAND}one of {', '.join(CONVERT_DTYPES)}.", json_schema_extra=_PATTERN
    )
    result: _TensorType = Field(
        description="The result's type, of the operand's sizes.", json_schema_extra=_PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = _layout(self.operand, CONVERT_VERSION, CONVERT_DTYPES)
        target = _layout(self.result, CONVERT_VERSION, CONVERT_DTYPES, "result")
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
    op: Annotated[str, OneOf("stablehlo", _spellings("reduce_precision"))]
    exponent_bits: _Bits = Field(ge=1, description="Bits of the exponent, at least 1.")
    mantissa_bits: _Bits = Field(ge=0, description="Bits of the mantissa, at least 0.")
    operand: _TensorType = Field(
        description=f"{_OPERAND}one of {', '.join(DTYPES)}.", json_schema_extra=_PATTERN
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        function = ReducePrecision(Rounding.TIES_TO_EVEN, self.exponent_bits, self.mantissa_bits)
        return Call.packed_output(function, _layout(self.operand, REDUCE_VERSION, DTYPES))


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
        operand = _tensor(FLOAT_TYPES, dtype, shape)
        return StableHLODescriptor.read({"op": self.op, "operand": operand})


def _tensor(names: Mapping[str, str], dtype: AnyDType | None, shape: Sequence[int] | None) -> str:
    sizes = "".join(f"{size}x" for size in sizes_of(shape))
    return f"tensor<{sizes}{name_in(names, canonical_name(dtype))}>"


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
            "operand": _tensor(CONVERT_DTYPES, dtype, shape),
            "result": _tensor(CONVERT_DTYPES, self.to, shape),
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
            "operand": _tensor(FLOAT_TYPES, dtype, shape),
        }
        return StableHLOReducePrecisionDescriptor.read(document)


DIALECT = Dialect(
    title="StableHLO",
    operator_field="op",
    spellings=_spellings(*MODES, "convert", "reduce_precision"),
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
            selected_by=("convert",),
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
            selected_by=("reduce_precision",),
            versions=(REDUCE_VERSION,),
            dtypes=DTYPES,
            unspecified={
                "overflow in a type without infinity": "NaN, or without one the largest number"
            },
        ),
    ),
)
