"""The comparison of roundings on a tensor, with NumPy."""

from __future__ import annotations

from typing import Any

from tensor_round.arrays.host import strided_view
from tensor_round.conformance import compare
from tensor_round.errors import Fault, InvalidDescriptor
from tensor_round.layout import Layout

from ..backends import Bytes


def check_dense(layout: Layout) -> None:
    """Raise :class:`InvalidDescriptor` for a layout with gaps or repeated elements."""
    if not layout.is_dense:
        rule = "a tensor to compare must have no gaps and no repeated elements"
        raise InvalidDescriptor.of([Fault(("strides",), rule)])


def compared(memory: Bytes, layout: Layout, *, swapped: bool = False) -> dict[str, Any]:
    """The differences on a tensor, as JSON values; ``swapped`` means big-endian elements."""
    elements = strided_view(memory, layout)
    if swapped:
        elements = elements.view(elements.dtype.newbyteorder(">"))
    return compare(elements).as_data()
