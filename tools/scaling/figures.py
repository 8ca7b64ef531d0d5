"""What one core of a node does, from the latest results of the bench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import results

RESULTS = Path(__file__).parents[2] / "bench" / "results"
TARGET = "POST /round"
MIB = 1 << 20


@dataclass(frozen=True)
class Core:
    """CPU time of the service, as the bench measured it: seconds a request, by its bytes."""

    seconds: dict[int, float]

    @property
    def request_seconds(self) -> float:
        """What a request takes beside its bytes: what the smallest takes."""
        return self.seconds[min(self.seconds)]

    @property
    def byte_seconds(self) -> float:
        """What a byte of a large tensor takes."""
        nbytes = 64 * MIB
        return (self.seconds[nbytes] - self.request_seconds) / nbytes

    def request(self, nbytes: int) -> float:
        """Seconds that a request takes, in the model."""
        return self.request_seconds + nbytes * self.byte_seconds


def core() -> Core:
    """The service's CPU time with client and server on cores of their own, or unpinned."""
    return Core(
        {
            row["bytes"]: row["server_cpu"]
            for row in _latest()["latency"]
            if row["target"] == TARGET and row["placement"] != "one core"
        }
    )


def in_process() -> float:
    """Bytes a second that one core rounds in process, in tensors of 64 MiB."""
    found = _latest()
    (seconds,) = (
        row["seconds"]
        for row in found["anatomy"]
        if row["layer"].startswith("Engine.round") and row["bytes"] == 64 * MIB
    )
    # The engine splits a large tensor among all cores.
    rate: float = 64 * MIB / seconds / found["machine"]["cores"]
    return rate


def _latest() -> dict[str, Any]:
    return results.read(max(RESULTS.glob("[0-9]*.json")).read_text())
