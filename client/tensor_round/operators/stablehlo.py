"""The ``stablehlo`` dialect: ``round_nearest_even`` and ``round_nearest_afz`` of StableHLO.

The operand is a tensor type in StableHLO's syntax, ``tensor<2x3xf16>``.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from ..call import RoundCall
from ..dtypes import BY_STABLEHLO
from ..errors import InvalidDescriptor
from ..layout import SIZE_LIMIT, Layout
from ..quoting import shown
from ..rounding import STABLEHLO_OPS, Rounding
from .dialect import Dialect, Version
from .fields import RANK_LIMIT, OneOf
from .model import OperatorDescriptor

_TITLE = "stablehlo: round_nearest"
VERSION = Version("1", _TITLE, (), tuple(BY_STABLEHLO), 0, RANK_LIMIT)

_TENSOR = re.compile(r"tensor<((?:(?:0|[1-9]\d*|\?)x)*)([a-wyz]\w{0,31})>", re.ASCII)
_RULE = f"{_TITLE} takes a tensor type such as tensor<2x3xf16>"
_EXAMPLE: dict[str, Any] = {
    "dialect": "stablehlo",
    "op": "round_nearest_afz",
    "operand": "tensor<2x3xf16>",
}


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

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dialect: Literal["stablehlo"] = "stablehlo"
    op: Annotated[
        str,
        OneOf(
            "stablehlo",
            {prefix + name: name for prefix in ("", "stablehlo.") for name in STABLEHLO_OPS},
        ),
    ] = Field(description="The operation, with or without the prefix stablehlo.")
    operand: Annotated[str, AfterValidator(_static)] = Field(
        description="The operand's type: sizes and the element type, separated by x. "
        f"The element type is one of {', '.join(BY_STABLEHLO)}.",
        json_schema_extra={"pattern": r"^tensor<((0|[1-9][0-9]*)x)*[a-wyz][A-Za-z0-9_]{0,31}>$"},
    )

    def resolve(self) -> RoundCall:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        element, sizes = _parts(self.operand)
        if faults := VERSION.dtype_faults(element, ("operand",)):
            raise InvalidDescriptor.of(faults)
        layout = Layout.of(BY_STABLEHLO[element], tuple(map(int, sizes)), loc=("operand",))
        return RoundCall.packed_output(STABLEHLO_OPS[self.op], layout)


DIALECT = Dialect(
    name="stablehlo",
    operator="round_nearest",
    version_field=None,
    versions=(VERSION,),
    dtypes={name: dtype.name for name, dtype in BY_STABLEHLO.items()},
    mode_field="op",
    modes=STABLEHLO_OPS,
    default_rounding=Rounding.TIES_TO_EVEN,
)
