"""The ``stablehlo`` dialect: ``round_nearest_even`` and ``round_nearest_afz`` of StableHLO.

The operand is a tensor type in StableHLO's syntax, ``tensor<2x3xf16>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from ...call import Call
from ...dtypes import AnyDType
from ...errors import InvalidDescriptor
from ...layout import SIZE_LIMIT
from ...quoting import shown
from ...rounding import Rounding
from ..dialect import Dialect, ModelNames, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor
from ..operator import RoundOperator, canonical_name, name_in, sizes_of
from .mlir import DTYPES as DTYPES

__all__ = ["StableHLODescriptor", "StableHLORound"]

#: With or without the prefix of its dialect in MLIR.
StableHLOOp = Literal[
    "round_nearest_even",
    "round_nearest_afz",
    "stablehlo.round_nearest_even",
    "stablehlo.round_nearest_afz",
]
MODES = {"round_nearest_even": Rounding.TIES_TO_EVEN, "round_nearest_afz": Rounding.TIES_TO_AWAY}
_TITLE = "stablehlo: round_nearest"
VERSION = Version("1", _TITLE, (), tuple(DTYPES), 0, RANK_LIMIT)

_TENSOR = re.compile(r"tensor<((?:(?:0|[1-9]\d*|\?)x)*)([a-wyz]\w{0,31})>", re.ASCII)
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


class StableHLODescriptor(OperatorDescriptor):
    """StableHLO round_nearest_even or round_nearest_afz: to the nearest integer."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "stablehlo",
        "op": "round_nearest_afz",
        "operand": "tensor<2x3xf16>",
    }

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[
        str,
        OneOf(
            "stablehlo",
            {prefix + name: name for prefix in ("", "stablehlo.") for name in MODES},
        ),
    ] = Field(description="The operation, with or without the prefix stablehlo.")
    operand: Annotated[str, AfterValidator(_static)] = Field(
        description="The operand's type: sizes and the element type, separated by x. "
        f"The element type is one of {', '.join(DTYPES)}.",
        json_schema_extra={"pattern": r"^tensor<((0|[1-9][0-9]*)x)*[a-wyz][A-Za-z0-9_]{0,31}>$"},
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        element, sizes = _parts(self.operand)
        if element not in DTYPES:
            raise InvalidDescriptor.at(("operand",), f"got {element}; {VERSION.takes}")
        shape = tuple(map(int, sizes))
        return Call.packed(MODES[self.op], DTYPES[element], shape, ("operand",))


@dataclass(frozen=True, slots=True)
class StableHLORound(RoundOperator):
    """StableHLO's rounding, on floats.

    ``op`` is ``round_nearest_even`` or ``round_nearest_afz`` (ties away from zero).
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: StableHLOOp = "round_nearest_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> StableHLODescriptor:
        """The ``stablehlo`` descriptor for a tensor."""
        sizes = "".join(f"{size}x" for size in sizes_of(shape))
        operand = f"tensor<{sizes}{name_in(DTYPES, canonical_name(dtype))}>"
        return StableHLODescriptor.read({"op": self.op, "operand": operand})


DIALECT = Dialect(
    title="StableHLO",
    operator="round_nearest",
    descriptor=StableHLODescriptor,
    object=StableHLORound,
    model=ModelNames("stablehlo_round_nearest", "operand", "result", "op"),
    words=Words(("OP",), ", ".join(MODES), required=1),
    versions=(VERSION,),
    dtypes=DTYPES,
    mode_field="op",
    modes=MODES,
)
