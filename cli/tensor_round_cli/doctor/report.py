"""The report of an examination: findings as sentences, and figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: The service works, but is probably not configured as intended.
    ADVICE = "advice"
    #: Results or requests are wrong, or will be.
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, its level, and a sentence."""

    check: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Times of rounding through a service, and of the same bytes on this host's loopback.

    Latencies are medians in milliseconds, for ``small_bytes`` each way. Throughputs are the best
    in bytes per second, for ``large_bytes`` each way.
    """

    small_bytes: int
    large_bytes: int
    latency_ms: float
    loopback_latency_ms: float
    throughput: float
    loopback_throughput: float


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an examination of the service at ``url``, and its figures."""

    url: str
    findings: tuple[Finding, ...]
    figures: Figures

    @property
    def is_healthy(self) -> bool:
        """Whether no finding is a fault."""
        return all(finding.level is not Level.FAULT for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "healthy": self.is_healthy}

    def __str__(self) -> str:
        width = max(len(finding.check) for finding in self.findings)
        marks = {Level.OK: "ok    ", Level.ADVICE: "advice", Level.FAULT: "FAULT "}
        return "\n".join(f"{marks[f.level]}  {f.check:<{width}}  {f.text}" for f in self.findings)
