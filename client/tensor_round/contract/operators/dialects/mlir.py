"""The ``mlir`` dialect: the rounding operations of MLIR's ``math`` dialect, and ``arith`` casts.

The former take any of MLIR's float types. The shape is that of a tensor of static sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from ...call import Call
from ...dtypes import BY_NAME, NOT_CLOSED, AnyDType, DType, DTypeName
from ...errors import Fault, InvalidDescriptor
from ...layout import Layout
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, NAN_TO_FLOAT, Dialect, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor, Shape, enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, name_in, sizes_of

__all__ = ["MLIRConvert", "MLIRConvertDescriptor", "MLIRDescriptor", "MLIRRound"]

MLIROp = Literal["math.roundeven", "math.round", "math.trunc", "math.ceil", "math.floor"]
MODES = {
    "math.roundeven": Rounding.TIES_TO_EVEN,
    "math.round": Rounding.TIES_TO_AWAY,
    "math.trunc": Rounding.TOWARD_ZERO,
    "math.ceil": Rounding.TOWARD_POSITIVE,
    "math.floor": Rounding.TOWARD_NEGATIVE,
}
DTYPES = {
    **{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
    **{"f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"},
    **{"f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz"},
    "f4E2M1FN": "float4_e2m1fn",
}
VERSION = Version("1", "mlir: math", tuple(DTYPES))
#: Floats that cannot be rounded, and why.
REJECTED = {"f8E8M0FNU": f"got f8E8M0FNU: {NOT_CLOSED}"}
_REJECTED: dict[str | int, str] = {
    name: f"{why}; {VERSION.takes}" for name, why in REJECTED.items()
}

MLIRConvertOp = Literal[
    "arith.extf", "arith.truncf", "arith.fptosi", "arith.fptoui", "arith.sitofp", "arith.uitofp"
]
FLOAT_TYPES = {**DTYPES, "f8E8M0FNU": "float8_e8m0fnu"}
#: Integers of ``arith`` are without a sign: the operation says whether they have one.
_INTEGER_TYPES = {f"i{width}": width for width in (4, 8, 16, 32, 64)}
UNSIGNED_DTYPES = {name: f"uint{width}" for name, width in _INTEGER_TYPES.items()}
CONVERT_DTYPES = {
    **FLOAT_TYPES,
    **{name: f"int{width}" for name, width in _INTEGER_TYPES.items()},
}
CONVERT_VERSION = Version("1", "mlir: arith", tuple(CONVERT_DTYPES))
_ConvertType = Annotated[str, OneOf(CONVERT_VERSION.title, enumeration(CONVERT_DTYPES))]
#: Of each operation, what operand and result are: a float, or an integer with or without sign.
_KINDS: dict[str, tuple[str, str]] = {
    "arith.extf": ("float", "float"),
    "arith.truncf": ("float", "float"),
    "arith.fptosi": ("float", "int"),
    "arith.fptoui": ("float", "uint"),
    "arith.sitofp": ("int", "float"),
    "arith.uitofp": ("uint", "float"),
}


class MLIRDescriptor(OperatorDescriptor):
    """MLIR's math.roundeven, math.round (ties away from zero), math.trunc, ceil or floor."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "mlir",
        "op": "math.round",
        "element_type": "f32",
        "shape": [2, 3],
    }

    dialect: Literal["mlir"] = "mlir"
    op: Annotated[str, OneOf(VERSION.title, enumeration(MODES))]
    element_type: Annotated[str, OneOf(VERSION.title, enumeration(DTYPES), _REJECTED)]
    shape: Shape

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        return Call.packed(MODES[self.op], DTYPES[self.element_type], self.shape)


@dataclass(frozen=True, slots=True)
class MLIRRound(RoundOperator):
    """MLIR's rounding, on floats.

    ``op`` is ``math.roundeven``, ``math.round`` (ties away from zero), ``math.trunc``,
    ``math.ceil`` or ``math.floor``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: MLIROp = "math.roundeven"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> MLIRDescriptor:
        """The ``mlir`` descriptor for a tensor."""
        name = name_in(FLOAT_TYPES, canonical_name(dtype))
        return MLIRDescriptor.read({"op": self.op, "element_type": name, "shape": sizes_of(shape)})


def _canonical(kind: str, name: str) -> str | None:
    """The dtype that an operand or result of a kind has by its element type; None if it cannot."""
    if kind == "float":
        return FLOAT_TYPES.get(name)
    return f"{kind}{_INTEGER_TYPES[name]}" if name in _INTEGER_TYPES else None


def _kind(dtype: DType) -> str:
    return "float" if dtype.is_float else "int" if dtype.is_signed else "uint"


def _op_of(source: DType, target: DType) -> str:
    """The operation from one dtype to another; raises :class:`InvalidDescriptor`."""
    kinds = _kind(source), _kind(target)
    if kinds == ("float", "float"):
        return "arith.extf" if target.width > source.width else "arith.truncf"
    for op, its_kinds in _KINDS.items():
        if its_kinds == kinds:
            return op
    rule = "mlir: arith: one of the two types must be a float"
    raise InvalidDescriptor.at(("result_element_type",), f"{rule}, got {target.name}")


class MLIRConvertDescriptor(OperatorDescriptor):
    """MLIR's arith.extf, truncf, fptosi, fptoui, sitofp or uitofp: to another type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "mlir",
        "op": "arith.truncf",
        "element_type": "f32",
        "result_element_type": "f16",
        "shape": [2, 3],
    }

    dialect: Literal["mlir"] = "mlir"
    op: Annotated[MLIRConvertOp, OneOf(CONVERT_VERSION.title, enumeration(_KINDS))]
    element_type: _ConvertType
    result_element_type: _ConvertType
    shape: Shape

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        names = self.element_type, self.result_element_type
        source, target = map(_canonical, _KINDS[self.op], names)
        fields = ("element_type", "result_element_type")
        faults = [
            Fault((field,), f"mlir: {self.op} takes {_what(kind)} here, got {name}")
            for field, kind, name in zip(fields, _KINDS[self.op], names, strict=True)
            if _canonical(kind, name) is None
        ]
        if faults or source is None or target is None:
            raise InvalidDescriptor.of(faults)
        given, result = BY_NAME[source], BY_NAME[target]
        bits = result.width - given.width
        if (self.op == "arith.extf" and bits <= 0) or (self.op == "arith.truncf" and bits >= 0):
            rule = "wider" if self.op == "arith.extf" else "narrower"
            loc = ("result_element_type",)
            raise InvalidDescriptor.at(loc, f"mlir: {self.op}: must be {rule} than element_type")
        return Call.converting(Layout.of(given, self.shape), target)


def _what(kind: str) -> str:
    names = FLOAT_TYPES if kind == "float" else _INTEGER_TYPES
    return f"one of {', '.join(names)}"


#: Of each kind of operand a dtype, on which attributes are checked.
_PROBES: dict[str, DTypeName] = {"float": "float32", "int": "int32", "uint": "uint32"}


@dataclass(frozen=True, slots=True)
class MLIRConvert(CastOperator):
    """MLIR's conversion to the type ``to``: ``arith.extf``, ``arith.truncf`` and so on.

    Without ``op`` the operation is the one from the operand's type to ``to``.
    """

    _optional: ClassVar[tuple[str, ...]] = ("op",)

    to: AnyDType
    op: MLIRConvertOp | None = None

    def __post_init__(self) -> None:
        self._take_numbers()
        kind = _KINDS[self.op][0] if self.op in _KINDS else "float"
        target = BY_NAME.get(canonical_name(self.to))
        probe = _PROBES[kind]
        if kind == "float" and target is not None and target.is_float:
            is_widest = self.op == "arith.extf" or target.width == 64
            probe = "float8_e5m2" if is_widest else "float64"
        self._store(self.descriptor(BY_NAME[probe].numpy, ()))

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> MLIRConvertDescriptor:
        """The ``mlir`` descriptor for a tensor."""
        names = canonical_name(dtype), canonical_name(self.to)
        source, target = (BY_NAME.get(name) for name in names)
        op: str | None = self.op
        # The model refuses the names of an unknown type and operation.
        if source is not None and target is not None:
            own = _op_of(source, target)
            op = own if op is None else op
            if op in _KINDS and _KINDS[op] != _KINDS[own]:
                rule = f"mlir: from {source.name} to {target.name} takes {own}, got {op}"
                raise InvalidDescriptor.at(("op",), rule)
        return MLIRConvertDescriptor.read(
            {
                "op": "arith.truncf" if op is None else op,
                "element_type": _name_of(names[0]),
                "result_element_type": _name_of(names[1]),
                "shape": sizes_of(shape),
            }
        )


def _name_of(dtype: str) -> str:
    """MLIR's name of a dtype: that of an integer does not tell its sign."""
    row = BY_NAME.get(dtype)
    return f"i{row.width}" if row is not None and not row.is_float else name_in(FLOAT_TYPES, dtype)


DIALECT = Dialect(
    title="MLIR",
    operator_field="op",
    operators=(
        Operator(
            name="math",
            descriptor=MLIRDescriptor,
            object=MLIRRound,
            model=ModelNames("mlir_math", "operand", "result", "op"),
            words=Words("", ("OP",), ", ".join(MODES), required=1),
            selected_by=tuple(MODES),
            versions=(VERSION,),
            dtypes=DTYPES,
            mode_field="op",
            modes=MODES,
        ),
        Operator(
            name="arith",
            descriptor=MLIRConvertDescriptor,
            object=MLIRConvert,
            model=ModelNames("mlir_arith", "operand", "result"),
            words=Words("", ("OP",), ", ".join(_KINDS)),
            selected_by=tuple(_KINDS),
            versions=(CONVERT_VERSION,),
            dtypes=CONVERT_DTYPES,
            target_field="result_element_type",
            unsigned_dtypes=UNSIGNED_DTYPES,
            unspecified={**FLOAT_TO_INTEGER, **NAN_TO_FLOAT},
        ),
    ),
)
