"""The differences between roundings on a tensor, by NumPy: the document of ``/compare``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.differences.classes import Bits
from tensor_round.contract.differences.directions import DirectionTally
from tensor_round.contract.dtypes import BY_NAME, dtype_name
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Round
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.rounding import Rounding

from ..backends.cpu.loops import rounder

#: Elements compared at once: with all temporaries they stay in a core's cache.
BLOCK = 1 << 15


def check_comparable(call: Call) -> None:
    """Raise :class:`InvalidDescriptor` for several tensors, and as :func:`check_dense` does."""
    if call.parameters is not None:
        raise InvalidDescriptor.at((), "an operator with a scale has no directions to compare")
    check_dense(call.input)


def check_dense(layout: Layout) -> None:
    """Raise :class:`InvalidDescriptor` for a layout with gaps or repeated elements."""
    if not layout.is_dense:
        rule = "a tensor to compare must have no gaps and no repeated elements"
        raise InvalidDescriptor.at(("strides",), rule)


def compared(elements: host_memory.Array, pause: Pause = no_pause) -> dict[str, Any]:
    """The differences on a tensor, as JSON values.

    Raises :class:`InvalidDescriptor` for a rank that no operator accepts, as a .npy file may have.
    """
    dtype, shape = dtype_name(elements.dtype), elements.shape
    IEEE754Round().prepare(dtype, shape)
    tally = DirectionTally(dtype, _rounded)
    for bits in host_memory.patterns(elements, BLOCK):
        tally.add(bits)
        pause()
    return tally.differences(shape).as_data()


def _rounded(bits: Bits, dtype: str, rounding: str) -> Bits:
    results = np.array(bits)
    memory = results.view(np.uint8)
    rounder(BY_NAME[dtype], Rounding(rounding)).run(memory, memory, results.size)
    return results
