"""The operator of the ``array_api`` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...names import AnyDType, ArrayAPIFunction
from ..array_api import ArrayAPIDescriptor
from ..tensor_arguments import canonical_name, sizes_of
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class ArrayAPIRound(RoundOperator):
    """The Array API's ``round`` (ties to even), ``trunc``, ``ceil`` or ``floor``.

    They accept float32, float64 and integers.
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: ArrayAPIFunction = "round"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> ArrayAPIDescriptor:
        """The ``array_api`` descriptor for a tensor."""
        array = {"dtype": canonical_name(dtype), "shape": sizes_of(shape)}
        return ArrayAPIDescriptor.read({"op": self.op, "x": array})
