"""What a request's work costs without HTTP: the engine, beside NumPy alone and plain copies.

These parts run in this process, without a socket. What a round trip takes beyond
``Engine.round`` is the connection, the event loop, the system and the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.operators import registry
from tensor_round_service.backends.select import compiled_kernels, select_backend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.engine.job import Job

from ..peers.targets import KIB, MIB

SMALL = KIB
LARGE = 64 * MIB
BLOCKS = 30

DESCRIPTOR = b'{"dialect":"ieee754","input":{"dtype":"float32","shape":[%d]}}'


def measure() -> list[dict[str, Any]]:
    """Seconds of each part."""
    engine = Engine(select_backend("numpy"))
    if kernels := compiled_kernels():
        kernels.wait()  # they would be compiled beside what is measured
    try:
        return [*rounded(engine, SMALL, 200), *copied(LARGE), *rounded(engine, LARGE, 1)]
    finally:
        engine.close()


def rounded(engine: Engine, nbytes: int, number: int) -> list[dict[str, Any]]:
    """The rounding alone, and with the memory, checks and choices that make it exact."""
    call = registry.resolve_json(DESCRIPTOR % (nbytes // 4))
    tensor = drawn(nbytes)
    source = tensor.view(np.uint8)

    def by_engine() -> None:
        job = Job(engine.memory)
        engine.round(call, source, job)
        job.end(reusable=True)

    return [
        row("numpy.rint in place", nbytes, timed(lambda: np.rint(tensor, out=tensor), number)),
        row("Engine.round: the same, every NaN kept", nbytes, timed(by_engine, number)),
    ]


def copied(nbytes: int) -> list[dict[str, Any]]:
    source = drawn(nbytes)
    other = np.empty_like(source)
    return [
        row("a copy, memory to memory", nbytes, timed(lambda: np.copyto(other, source), 1)),
        row("a copy into fresh memory", nbytes, timed(lambda: source.copy(), 1)),
    ]


def drawn(nbytes: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=nbytes // 4).astype(np.float32)


def row(layer: str, nbytes: int, seconds: float) -> dict[str, Any]:
    return {"layer": layer, "bytes": nbytes, "seconds": seconds}


def timed(work: Callable[[], object], number: int) -> float:
    """Seconds of one piece of work: the best of many blocks of so many."""
    times = []
    for _ in range(BLOCKS if number > 1 else BLOCKS // 4):
        began = time.perf_counter()
        for _ in range(number):
            work()
        times.append((time.perf_counter() - began) / number)
    return min(times)
