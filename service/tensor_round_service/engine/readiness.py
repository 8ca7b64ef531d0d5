"""Readiness: the process is not draining, and its backend has the right known results."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from tensor_round.contract.errors import BackendFailed, Draining

from ..backends import Backend, in_place
from ..backends.known_results import KNOWN

logger = logging.getLogger(__name__)

#: Time for which a proof is valid: several probes may ask at the same time.
PROOF_VALID_SECONDS = 1.0
#: Time limit of a proof; a slower device counts as failed.
PROOF_SECONDS = 1.5


@dataclass
class ProcessLifecycle:
    """State that the server and the application share."""

    #: Whether this process drains; set by the server.
    draining: bool = False
    #: Whether the backend is lost for the rest of this process; set by the application.
    is_lost: Callable[[], bool] = lambda: False
    #: The open connections, by what they wait for; the server says.
    connections: Callable[[], dict[str, int]] = dict
    #: When the certificate expires, in Unix time; None without one.
    certificate_expiry: Callable[[], int | None] = lambda: None
    #: How many lines of the log were dropped.
    dropped_log_lines: Callable[[], int] = lambda: 0
    #: How many connections were refused for lack of file descriptors; the server counts.
    refused_connections: int = 0


class Readiness:
    """Checks readiness with a proof of the backend that is about a second old at most."""

    def __init__(self, backend: Backend, lifecycle: ProcessLifecycle) -> None:
        self._backend = backend
        self._lifecycle = lifecycle
        self._proof: _Proof | None = None

    async def check(self) -> None:
        """Raise :class:`Draining` or :class:`BackendFailed` if the process is not ready.

        Takes ``PROOF_SECONDS`` at most, also if the device hangs.
        """
        if self._lifecycle.draining:
            raise Draining("this instance is shutting down; retry on another", retry_after=1)
        if not self._backend.is_healthy:
            # A lost backend stays lost, so an earlier proof does not count.
            raise BackendFailed("the backend is lost; retry on another instance", retry_after=1)
        proof = self._proof
        if proof is None or proof.is_stale():
            proof = self._proof = _Proof(self._backend)
        if not await proof.holds():
            raise BackendFailed("the backend rounded known values wrongly", retry_after=1)


class _Proof:
    """One test of the backend, on a separate daemon thread.

    The engine's threads may all be busy, which does not make the process unready. The process
    must not wait for the thread at exit, because a hung device may block it for ever.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._began = time.monotonic()
        self._ended: float | None = None
        self._result: Future[bool] = Future()
        threading.Thread(target=self._run, name="tensor-round-proof", daemon=True).start()

    def is_stale(self) -> bool:
        """Whether a new proof is needed; False while this one runs."""
        return self._ended is not None and time.monotonic() > self._ended + PROOF_VALID_SECONDS

    async def holds(self) -> bool:
        """Whether the results are correct and in time."""
        left = max(0.0, self._began + PROOF_SECONDS - time.monotonic())
        result = asyncio.wrap_future(self._result)
        await asyncio.wait([result], timeout=left)
        return result.done() and result.result()

    def _run(self) -> None:
        is_correct = False
        try:
            is_correct = rounds_correctly(self._backend)
            if not is_correct:
                logger.error("the %s backend rounds wrongly", self._backend.name)
        except Exception:  # devices fail with exceptions of any class
            logger.exception("the %s backend failed", self._backend.name)
        self._ended = time.monotonic()
        self._result.set_result(is_correct)


def rounds_correctly(backend: Backend) -> bool:
    """Whether every arithmetic of the backend has the known results, of conversions too."""
    for arithmetic in backend.arithmetics().values():
        for known in KNOWN:
            call = known.call
            operands = backend.allocate(known.operands.size)
            operands[:] = known.operands
            is_apart = not call.is_in_place
            results = backend.allocate(known.results.size) if is_apart else in_place(call, operands)
            arithmetic(call, operands, results)
            if not np.array_equal(results, known.results):
                return False
    return backend.is_healthy
