"""Where rounding directions differ on a tensor, by NumPy: it is counted, not rounded."""

from __future__ import annotations

from typing import Any

from tensor_round.arrays.host import laid_out
from tensor_round.conformance import compare
from tensor_round.errors import Fault, InvalidDescriptor
from tensor_round.layout import Layout

from ..backends import Bytes


def check_dense(layout: Layout) -> None:
    """Refuse with :class:`InvalidDescriptor` elements that repeat or leave gaps."""
    if not layout.is_dense:
        rule = "a tensor to compare has each element once, without gaps"
        raise InvalidDescriptor.of([Fault(("strides",), rule)])


def compared(memory: Bytes, layout: Layout, *, swapped: bool = False) -> dict[str, Any]:
    """The document of :class:`Differences` for a tensor; ``swapped`` if it is big-endian."""
    elements = laid_out(memory, layout)
    if swapped:
        elements = elements.view(elements.dtype.newbyteorder(">"))
    return compare(elements).as_data()
