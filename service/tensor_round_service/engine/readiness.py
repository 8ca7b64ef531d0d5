"""Whether this process should be given requests: it stays, and its backend rounds right."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import BY_NAME
from tensor_round.errors import BackendFailed, Draining
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from ..backends import Backend

logger = logging.getLogger(__name__)

#: How long a proof counts, in seconds: health is asked often, by several askers.
FRESH_SECONDS = 1.0
#: How long a proof may take; a device that answers later is as good as stuck.
PROOF_SECONDS = 1.5

#: float32 patterns that rounding code gets wrong, and what ties_to_even makes of them.
_PATTERNS = (
    (0x3F000000, 0x00000000),  # 0.5
    (0xBF000000, 0x80000000),  # -0.5
    (0x3EFFFFFF, 0x00000000),  # the last below 0.5: adding 0.5 makes 1 of it
    (0x3FC00000, 0x40000000),  # 1.5
    (0x40200000, 0x40000000),  # 2.5
    (0xBE99999A, 0x80000000),  # -0.3
    (0x80000001, 0x80000000),  # the least subnormal: lost where they are flushed with their sign
    (0x4AFFFFFF, 0x4B000000),  # 8388607.5, the last that has a half
    (0xFF800000, 0xFF800000),  # -infinity
    (0x7F800001, 0x7F800001),  # a signalling NaN
)
_QUESTION, _ANSWER = np.array(_PATTERNS, "<u4").T.copy().view(np.uint8)
_LAYOUT = Layout.of(BY_NAME["float32"], (len(_PATTERNS),))
_CALL = RoundCall.packed_output(Rounding.TIES_TO_EVEN, _LAYOUT)


@dataclass
class Lifecycle:
    """What the server knows and the routes must, and what it must know of them."""

    #: Whether this process is about to leave.
    draining: bool = False
    #: Whether it should, as its backend is lost for as long as it stays; the application says.
    is_lost: Callable[[], bool] = lambda: False
    #: The open connections, by what they wait for; the server says.
    connections: Callable[[], dict[str, int]] = dict


class Readiness:
    """Proof, never much older than a second, that the backend rounds to the bit."""

    def __init__(self, backend: Backend, lifecycle: Lifecycle) -> None:
        self._backend = backend
        self._lifecycle = lifecycle
        self._proof: _Proof | None = None

    async def check(self) -> None:
        """Return if requests are welcome; else raise :class:`Draining` or :class:`BackendFailed`.

        Never takes longer than ``PROOF_SECONDS``, whatever the device does.
        """
        if self._lifecycle.draining:
            raise Draining("this instance takes its leave; another will answer", retry_after=1)
        if not self._backend.is_healthy:
            # Known at once, and for good: an earlier proof is worth nothing.
            raise BackendFailed("the backend is lost; another instance will answer", retry_after=1)
        proof = self._proof
        if proof is None or proof.is_stale():
            proof = self._proof = _Proof(self._backend)
        if not await proof.holds():
            raise BackendFailed("the backend did not round a few known values", retry_after=1)


class _Proof:
    """One try of the backend, on a thread of its own.

    Not on the engine's: all of them at work is no reason not to be ready. And not one that
    the process would wait for at its end, as the device may never let it go.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._began = time.monotonic()
        self._ended: float | None = None
        self._result: Future[bool] = Future()
        threading.Thread(target=self._run, name="tensor-round-proof", daemon=True).start()

    def is_stale(self) -> bool:
        """Whether another should be made; never while this one still runs."""
        return self._ended is not None and time.monotonic() > self._ended + FRESH_SECONDS

    async def holds(self) -> bool:
        """Whether the values came out right, and in time."""
        left = max(0.0, self._began + PROOF_SECONDS - time.monotonic())
        result = asyncio.wrap_future(self._result)
        await asyncio.wait([result], timeout=left)
        return result.done() and result.result()

    def _run(self) -> None:
        right = False
        try:
            right = rounds_right(self._backend)
            if not right:
                logger.error("the %s backend rounds wrongly", self._backend.name)
        except Exception:  # whatever a device may fail with: it is not ready
            logger.exception("the %s backend does not round", self._backend.name)
        self._ended = time.monotonic()
        self._result.set_result(right)


def rounds_right(backend: Backend) -> bool:
    """Whether all that may round a tensor here makes what it should of a few known values."""
    for arithmetic in backend.arithmetics().values():
        memory = backend.allocate(_QUESTION.size)[: _QUESTION.size]
        memory[:] = _QUESTION
        arithmetic(_CALL, memory, memory)
        if not np.array_equal(memory, _ANSWER):
            return False
    return backend.is_healthy
