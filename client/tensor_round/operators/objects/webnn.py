"""The operator of the ``webnn`` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...names import AnyDType
from ..tensor_arguments import canonical_name, sizes_of
from ..webnn import WebNNDescriptor
from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class WebNNRoundEven(RoundOperator):
    """WebNN roundEven: ties to even, on float32 and float16."""

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> WebNNDescriptor:
        """The ``webnn`` descriptor for a tensor."""
        tensor = {"dataType": canonical_name(dtype), "shape": sizes_of(shape)}
        return WebNNDescriptor.read({"op": "roundEven", "input": tensor})
