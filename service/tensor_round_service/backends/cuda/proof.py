"""Whether a device rounds as NumPy does: every kernel, before the first request."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import BY_NAME, DTYPES
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from .. import Bytes, Round
from ..cpu.backend import NumpyBackend
from ..proof_patterns import patterns
from .device import DeviceFailed, OutOfDeviceMemory

#: Rounds on the device that is judged.
RoundThere = Callable[[RoundCall, Bytes, Bytes], object]


class WrongBits(Exception):
    """A device gave other bits than NumPy; the message says for what."""


def prove(there: RoundThere, host: NumpyBackend) -> None:
    """Compile and run every kernel, and compare. Raises :class:`WrongBits`."""
    for dtype in DTYPES:
        packed = Layout.of(dtype, (2, patterns(dtype).size // dtype.itemsize // 2))
        spaced = Layout.of(dtype, packed.shape, (1, 5))
        for rounding in Rounding:
            _compare(there, host.round, RoundCall.packed_output(rounding, packed))
        # The kernel that follows strides is the same for all directions.
        _compare(there, host.round, RoundCall(rounding, packed, spaced, packed.byte_length))


def is_alive(there: RoundThere) -> bool:
    """Whether the device still computes at all."""
    dtype = BY_NAME["float32"]
    source = np.array([0.5, 1.5, -0.25, 7.0], dtype.numpy)
    call = RoundCall.packed_output(Rounding.TIES_TO_EVEN, Layout.of(dtype, source.shape))
    result = np.empty_like(source)
    try:
        there(call, source.view(np.uint8), result.view(np.uint8))
    except (DeviceFailed, OutOfDeviceMemory):
        return False
    return np.array_equal(result, np.rint(source))


def _compare(there: RoundThere, here: Round, call: RoundCall) -> None:
    given = patterns(call.input.dtype)[: call.input.byte_length]
    source = given.copy()
    result, right = (np.empty(call.output.byte_length, np.uint8) for _ in range(2))
    there(call, source, result)
    here(call, given.copy(), right)
    if not np.array_equal(result, right):
        wrong = int(np.count_nonzero(result != right))
        raise WrongBits(
            f"{call.input.dtype.name} {call.rounding} differs from NumPy's in {wrong} bytes"
        )
