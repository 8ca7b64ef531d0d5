"""The operator of the ``stablehlo`` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...names import AnyDType, StableHLOOp
from ..stablehlo import StableHLODescriptor
from ..tensor_arguments import canonical_name, name_in, sizes_of
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class StableHLORound(RoundOperator):
    """StableHLO's rounding, on floats: ``round_nearest_even`` or ``round_nearest_afz``.

    ``op`` may have the prefix ``stablehlo.``; ``afz`` is ties away from zero.
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: StableHLOOp = "round_nearest_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> StableHLODescriptor:
        """The ``stablehlo`` descriptor for a tensor."""
        sizes = "".join(f"{size}x" for size in sizes_of(shape))
        operand = f"tensor<{sizes}{name_in(canonical_name(dtype), 'stablehlo')}>"
        return StableHLODescriptor.read({"op": self.op, "operand": operand})
