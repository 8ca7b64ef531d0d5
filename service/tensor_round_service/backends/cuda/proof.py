"""The proof of a device: every kernel must give NumPy's bits before the device serves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from .. import Bytes, Round
from ..cpu.backend import NumpyBackend
from ..proof_patterns import patterns
from .device import DeviceFailed, OutOfDeviceMemory

#: Rounds on the device under test.
DeviceRound = Callable[[RoundCall, Bytes, Bytes], object]


class WrongBits(Exception):
    """A kernel's results differ from NumPy's; the message names dtype and rounding."""


def prove(device_round: DeviceRound, host: NumpyBackend) -> None:
    """Compile and run every kernel, and compare with NumPy. Raises :class:`WrongBits`."""
    for dtype in DTYPES:
        packed = Layout.of(dtype, (2, patterns(dtype).size // dtype.itemsize // 2))
        spaced = Layout.of(dtype, packed.shape, (1, 5))
        for rounding in Rounding:
            _compare(device_round, host.round, RoundCall.packed_output(rounding, packed))
        # The strided copy does not depend on the rounding: the last one is enough.
        _compare(device_round, host.round, RoundCall(rounding, packed, spaced, packed.byte_length))


def is_alive(device_round: DeviceRound) -> bool:
    """Whether the device can still round a few values."""
    dtype = BY_NAME["float32"]
    source = np.array([0.5, 1.5, -0.25, 7.0], dtype.numpy)
    call = RoundCall.packed_output(Rounding.TIES_TO_EVEN, Layout.of(dtype, source.shape))
    result = np.empty_like(source)
    try:
        device_round(call, source.view(np.uint8), result.view(np.uint8))
    except (DeviceFailed, OutOfDeviceMemory):
        return False
    return np.array_equal(result, np.rint(source))


def _compare(device_round: DeviceRound, host_round: Round, call: RoundCall) -> None:
    operands = patterns(call.input.dtype)[: call.input.byte_length]
    result, expected = (np.empty(call.output.byte_length, np.uint8) for _ in range(2))
    device_round(call, operands.copy(), result)
    host_round(call, operands.copy(), expected)
    if not np.array_equal(result, expected):
        wrong = int(np.count_nonzero(result != expected))
        raise WrongBits(
            f"{call.input.dtype.name} {call.rounding} differs from NumPy's in {wrong} bytes"
        )
