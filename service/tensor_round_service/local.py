"""The engine in a client's own process: ``tensor_round.Client("local:")``. No HTTP here.

Each process has one engine, with the NumPy backend and the default limits of the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.errors import BackendFailed, NotFound, NotOffered, TensorRoundError
from tensor_round.contract.host_memory import elements
from tensor_round.contract.operators import registry

from .backends import Bytes
from .backends.select import select_backend
from .engine import digests
from .engine.differences import check_comparable, compared
from .engine.engine import INLINE_BYTES, MAX_TENSOR_BYTES, Engine
from .engine.job import Job
from .engine.memory import largest_request
from .engine.readiness import rounds_correctly
from .failures import refusal_for
from .service_types import Limits, catalog

_REMEMBERED_CALLS = 1024


class LocalEngine:
    """Implements ``tensor_round.transport.local_transport``; safe to share between threads."""

    def __init__(self) -> None:
        self._engine = Engine(select_backend("numpy"))
        self._call = lru_cache(_REMEMBERED_CALLS)(_resolve)

    def resolve(self, descriptors: tuple[bytes, ...], length: int) -> Call:
        """The call of a descriptor; raises if its payload cannot have ``length`` bytes.

        That of two, a quantization and its inverse, is fake quantization.
        """
        call = self._call(*descriptors)
        if length not in call.lengths:
            raise call.wrong_size(length)
        return call

    def round_run(self, call: Call, start: int, source: memoryview, target: memoryview) -> None:
        """Round the part of a packed tensor from byte ``start`` on, in place or into a target."""
        operand, result = _bytes(source), _bytes(target)
        if operand.ctypes.data == result.ctypes.data:
            operand = result  # backends recognize in-place calls by identity
        part = call.flat(len(source), start)
        with _refusals():
            self._engine.backend.round(part, operand, result)

    def round_all(
        self, call: Call, payload: memoryview, take: Callable[[memoryview], None]
    ) -> None:
        """Round a call of any layout and pass the output to ``take``, which must copy it."""
        job = Job(self._engine.memory)
        try:
            with _refusals():
                job.reserve(call.output.byte_length)
                target = job.allocate(call.output.byte_length)
                take(self._engine.round(call, _bytes(payload), job, target).data)
        finally:
            job.end(reusable=True)

    def compare(self, call: Call, payload: memoryview) -> dict[str, Any]:
        """The document that the service returns for a tensor at ``/compare``."""
        with _refusals():
            check_comparable(call)
            return compared(elements(_bytes(payload), call.input))

    def document(self, method: str, path: str) -> dict[str, Any]:
        """The JSON document that the service has at a path."""
        backend = self._engine.backend
        path, _, query = path.partition("?")
        match method, path:
            case "GET", "/operators":
                budget = self._engine.memory.limit_bytes
                limits: Limits = {
                    "max_tensor_bytes": min(MAX_TENSOR_BYTES, largest_request(budget)),
                    "max_bytes_in_flight": budget,
                }
                return {**catalog(limits)}
            case "GET", "/conformance":
                operator, pairs = digests.pairs_of(dict(parse_qsl(query)))
                found = [digests.converted(backend, operator, pair) for pair in pairs]
                return {**digests.report(digests.roundings(backend), operator, found)}
            case "GET", "/readyz":
                if not rounds_correctly(backend):
                    raise BackendFailed("the backend rounded known values wrongly")
                return {"status": "ready", "backend": backend.name}
        if path.startswith("/v2/"):
            raise NotOffered("local: does not offer the Open Inference Protocol")
        raise NotFound(f"local: does not offer {path}")

    async def run(self, work: Callable[[], None], nbytes: int) -> None:
        """Run ``work`` on ``nbytes`` bytes, on a thread if they are many.

        Returns after the end of ``work`` even if cancelled, because ``work`` writes into the
        caller's memory.
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


_lock = threading.Lock()


@cache
def _engine() -> LocalEngine:
    return LocalEngine()


def open_engine() -> LocalEngine:
    """The engine of this process, created by the first call."""
    with _lock:
        return _engine()


def _reset_after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _engine.cache_clear()


if hasattr(os, "register_at_fork"):
    # A forked child has no threads of the engine, and the lock may be held for ever.
    os.register_at_fork(after_in_child=_reset_after_fork)


def _resolve(descriptor: bytes, back: bytes | None = None) -> Call:
    # Not by the table of routes, which has a web framework and httptools: the engine needs neither.
    call = registry.parse(descriptor).resolve()
    if back is not None:
        call = call.fake(registry.parse(back).resolve())
    call.check_sizes(MAX_TENSOR_BYTES)
    return call


def _bytes(memory: memoryview) -> Bytes:
    return np.frombuffer(memory, np.uint8)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn every exception into a refusal, as the service does."""
    try:
        yield
    except TensorRoundError:
        raise
    except Exception as error:
        raise refusal_for(error) from None
