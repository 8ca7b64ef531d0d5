"""The clients: sync, async, and with tensors cut into tiles."""

from __future__ import annotations

from support.cases.drawn_tensors import DrawnTensor, WrongResult

from .caller import TILE_BYTES, Caller


def _drawn(caller: Caller) -> DrawnTensor:
    return DrawnTensor.drawn(caller.source, caller.source.max_bytes)


def client(caller: Caller) -> None:
    """One array, sometimes in place."""
    tensor = _drawn(caller)
    out = tensor.x.copy() if caller.source.random() < 0.3 else None
    given = tensor.x if out is None else out
    got = caller.sync.round(given, tensor.rounding, out=out)
    if out is not None and got is not out:
        raise WrongResult(f"{tensor}: not in place")
    tensor.check_array(got)


def async_client(caller: Caller) -> None:
    """One array, by the client for event loops."""
    tensor = _drawn(caller)
    tensor.check_array(caller.asynchronous.round(tensor.x, tensor.rounding))


def tiled_client(caller: Caller) -> None:
    """An array of several tiles on several connections, each with its digest."""
    tensor = _drawn(caller)
    if tensor.x.size:
        count = max(TILE_BYTES * 3 // tensor.x.itemsize, tensor.x.size)
        tensor = DrawnTensor.of(tensor.dtype.name, tensor.rounding, count)
    tensor.check_array(caller.tiled.round(tensor.x, tensor.rounding))
