"""Kernels beside a copy within the device, and the way through it beside copies to and from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import cupy
import numpy as np

from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.cuda.cupy_device import CupyDevice
from tensor_round_service.backends.cuda.device import DeviceBuffer, Stream


class NotMeasured(Exception):
    """Something here stands in the way; says what."""


#: Bytes that kernels are timed on; a smaller device has its eighth.
KERNEL_BYTES = 1 << 30
#: Bytes of the host tensor.
HOST_BYTES = 256 << 20
TRIES = 20


def seconds(stream: Stream, work: Callable[[], object]) -> float:
    """The shortest of many runs of what is queued, by the device's own clock."""
    work()
    best = np.inf
    for _ in range(TRIES):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    stream.wait()
    return float(best)


def kernels(device: CupyDevice) -> tuple[float, dict[str, dict[str, float]]]:
    """The bytes a second of a copy, read and written, and each kernel's speed as part of it."""
    nbytes = min(KERNEL_BYTES, device.total_bytes // 8 & -4096)
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    ratios: dict[str, dict[str, float]] = {}
    with device.stream() as stream:
        _fill(stream, source)
        copying = seconds(stream, lambda: stream.copy(source, target))
        for dtype in DTYPES:
            for rounding in Rounding if dtype.is_float else ():
                work = partial(stream.round, dtype, rounding, source, target)
                ratios.setdefault(dtype.name, {})[rounding] = copying / seconds(stream, work)
    return 2 * nbytes / copying, ratios


def _fill(stream: Stream, target: DeviceBuffer) -> None:
    """Random bytes: every kind of value of every dtype."""
    drawn = np.random.default_rng(1).integers(0, 256, 32 << 20, np.uint8)
    for start in range(0, target.nbytes, drawn.size):
        part = target.part(start, min(start + drawn.size, target.nbytes))
        stream.copy_in(drawn[: part.nbytes], part)
    stream.wait()


def pipeline(backend: CupyBackend, device: CupyDevice) -> tuple[float, dict[str, float]]:
    """A host tensor's way there and back as part of the slower copy; and both copies' speeds."""
    memory = backend.allocate(HOST_BYTES)
    memory[:] = 0
    backend.wait_until_pinned()
    if not device.is_pinned(memory):
        raise NotMeasured("the host's memory could not be page-locked (see ulimit -l)")
    there = device.allocate(HOST_BYTES)
    with device.stream() as stream:
        copies = {
            "to_device": HOST_BYTES / seconds(stream, lambda: stream.copy_in(memory, there)),
            "from_device": HOST_BYTES / seconds(stream, lambda: stream.copy_out(there, memory)),
        }
    layout = Layout.of(BY_NAME["float32"], (HOST_BYTES // 4,))
    call = RoundCall.packed_output(Rounding.TIES_TO_EVEN, layout)
    best = np.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        backend.round_on_device(call, memory, memory)
        best = min(best, time.perf_counter() - began)
    return float(HOST_BYTES / best / min(copies.values())), copies
