"""What calls cost: where they run, and whether in pieces, depends on it."""

from __future__ import annotations

from tensor_round.contract.call import Call
from tensor_round.contract.functions import RoundToIntegral

#: Bytes of 32- and 64-bit types that are rounded in the time of one byte of a narrower type.
WIDE_SPEEDUP = 4
#: Bytes of a narrow type that are rounded in the time in which NumPy converts an element: from
#: float to float or by a table, else by integers, and those of 64 bits.
FLOAT_COST, INTEGER_COST, WIDE_INTEGER_COST = 4, 32, 512


def call_cost(call: Call) -> int:
    """The number of bytes of a narrow type that take as long to round as a call."""
    if call.is_copy or isinstance(call.function, RoundToIntegral):
        return call.nbytes if call.input.dtype.itemsize <= 2 else call.nbytes // WIDE_SPEEDUP
    if call.parameters is not None:
        return call.input.element_count * INTEGER_COST
    source, target = call.input.dtype, call.output.dtype
    if source.width <= 16 or (source.is_float and target.is_float):
        return call.input.element_count * FLOAT_COST
    is_wide = source.width == 64 and not source.is_float
    return call.input.element_count * (WIDE_INTEGER_COST if is_wide else INTEGER_COST)
