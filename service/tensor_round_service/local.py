"""The engine in a client's own process: ``tensor_round.Client("local:")``. No HTTP here.

There is one a process, on its CPUs, with the same limits as a service's that was told none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from tensor_round import operators
from tensor_round.call import RoundCall, wrong_size
from tensor_round.errors import BackendFailed, NotFound, NotOffered, TensorRoundError
from tensor_round.layout import check_size

from .backends import Bytes
from .backends.select import choose
from .catalog import catalog
from .documents import Limits
from .engine import conformance
from .engine.comparison import check_dense, compared
from .engine.engine import INLINE_BYTES, MAX_TENSOR_BYTES, Engine
from .engine.job import Job
from .engine.memory import largest_request
from .engine.overlap import flat_call
from .engine.readiness import rounds_right
from .failures import refusal_for

_REMEMBERED_CALLS = 1024


class LocalEngine:
    """The calls of ``tensor_round.transport.local``; safe to share between threads."""

    def __init__(self) -> None:
        self._engine = Engine(choose("numpy"))
        self._call = lru_cache(_REMEMBERED_CALLS)(_resolve)

    def resolve(self, descriptor: bytes, length: int) -> RoundCall:
        """The call that a descriptor stands for, with a payload of that many bytes."""
        call = self._call(descriptor)
        if length not in call.lengths:
            raise wrong_size(length, call.lengths)
        return call

    def round_run(self, call: RoundCall, source: memoryview, target: memoryview) -> None:
        """Round whole elements of a call from one run of bytes into another, or in place."""
        given, result = _bytes(source), _bytes(target)
        if given.ctypes.data == result.ctypes.data:
            given = result  # backends know by this that it is in place
        part = flat_call(call.input.dtype, call.rounding, len(target))
        with _refusals():
            self._engine.backend.round(part, given, result)

    def round_all(
        self, call: RoundCall, payload: memoryview, take: Callable[[memoryview], None]
    ) -> None:
        """Round a call of any layout, and give away the output, which is nobody's afterwards."""
        job = Job(self._engine.memory)
        try:
            with _refusals():
                job.reserve(call.output.byte_length)
                target = job.allocate(call.output.byte_length)
                take(self._engine.round(call, _bytes(payload), job, target).data)
        finally:
            job.end(settled=True)

    def compare(self, call: RoundCall, payload: memoryview) -> dict[str, Any]:
        """What the service says of a tensor at ``/compare``."""
        with _refusals():
            check_dense(call.input)
            return compared(_bytes(payload), call.input)

    def document(self, method: str, path: str) -> dict[str, Any]:
        """What the service says at a path."""
        backend = self._engine.backend
        match method, path:
            case "GET", "/operators":
                budget = self._engine.memory.limit_bytes
                limits: Limits = {
                    "max_tensor_bytes": min(MAX_TENSOR_BYTES, largest_request(budget)),
                    "max_bytes_in_flight": budget,
                }
                return {**catalog(limits)}
            case "GET", "/conformance":
                return {**conformance.report(backend)}
            case "GET", "/readyz":
                if not rounds_right(backend):
                    raise BackendFailed("the backend did not round a few known values")
                return {"status": "ready", "backend": backend.name}
        if path.startswith("/v2/"):
            raise NotOffered("the Open Inference Protocol is not offered without a server")
        raise NotFound(f"there is no {path} without a server")

    async def run(self, work: Callable[[], None], nbytes: int) -> None:
        """Do work on that many bytes, beside the event loop if they are many.

        It is over when this returns, even if that is because the wait was cancelled: it writes
        into the caller's memory.
        """
        if nbytes <= INLINE_BYTES:
            work()
            return
        task = asyncio.ensure_future(self._engine.run(work, nbytes))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise


class _Process:
    """What this process has of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engine: LocalEngine | None = None


_process = _Process()


def open_engine() -> LocalEngine:
    """This process's engine, made when it is first asked for."""
    process = _process
    with process.lock:
        if process.engine is None:
            process.engine = LocalEngine()
        return process.engine


def _begin_anew() -> None:
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    # A forked child has none of the engine's threads, and the lock as another thread had it.
    os.register_at_fork(after_in_child=_begin_anew)


def _resolve(descriptor: bytes) -> RoundCall:
    call = operators.parse(descriptor).resolve()
    check_size(call.input, MAX_TENSOR_BYTES, "input")
    check_size(call.output, MAX_TENSOR_BYTES, "output")
    return call


def _bytes(memory: memoryview) -> Bytes:
    return np.frombuffer(memory, np.uint8)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Let no exception out but a refusal of the service's."""
    try:
        yield
    except TensorRoundError:
        raise
    except Exception as error:  # as over HTTP: one of our own is an error that a caller knows
        raise refusal_for(error) from None
