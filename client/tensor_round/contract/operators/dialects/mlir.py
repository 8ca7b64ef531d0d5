"""The ``mlir`` dialect: the five rounding operations of MLIR's ``math`` dialect.

They take any of MLIR's float types. The shape is that of a tensor of static sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import AnyDType
from ...rounding import Rounding
from ..dialect import Dialect, ModelNames, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor, Sizes
from ..operator import RoundOperator, canonical_name, name_in, sizes_of

__all__ = ["MLIRDescriptor", "MLIRRound"]

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
}
VERSION = Version("1", "mlir: math", (), tuple(DTYPES), 0, RANK_LIMIT)


class MLIRDescriptor(OperatorDescriptor):
    """MLIR's math.roundeven, math.round (ties away from zero), math.trunc, ceil or floor."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "mlir",
        "op": "math.round",
        "element_type": "f32",
        "shape": [2, 3],
    }

    dialect: Literal["mlir"] = "mlir"
    op: Annotated[str, OneOf(VERSION.title, {name: name for name in MODES})]
    element_type: Annotated[str, OneOf(VERSION.title, {name: name for name in DTYPES})]
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty tensor.")

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
        name = name_in(DTYPES, canonical_name(dtype))
        return MLIRDescriptor.read({"op": self.op, "element_type": name, "shape": sizes_of(shape)})


DIALECT = Dialect(
    title="MLIR",
    operator="math",
    descriptor=MLIRDescriptor,
    object=MLIRRound,
    model=ModelNames("mlir_math", "operand", "result", "op"),
    words=Words(("OP",), ", ".join(MODES), required=1),
    versions=(VERSION,),
    dtypes=DTYPES,
    mode_field="op",
    modes=MODES,
)
