"""The operator of the ``ieee754`` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...names import AnyDType, RoundingName
from ...rounding import Rounding
from ..ieee754 import IEEE754Descriptor
from ..tensor_arguments import canonical_name, sizes_of
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class IEEE754Round(RoundOperator):
    """roundToIntegral of IEEE 754-2019, on every dtype.

    ``rounding`` is a :class:`Rounding` or its name: ``ties_to_even``, ``ties_to_away``,
    ``toward_zero``, ``toward_positive`` or ``toward_negative``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"rounding": "rounding"}

    rounding: RoundingName | Rounding = "ties_to_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> IEEE754Descriptor:
        """The ``ieee754`` descriptor for a packed tensor."""
        tensor = {"dtype": canonical_name(dtype), "shape": sizes_of(shape)}
        return IEEE754Descriptor.read({"rounding": self.rounding, "input": tensor})
