"""The present state of a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of one worker. Sizes are in bytes; ``connections`` are numbers by state."""

    bytes_in_flight: int = 0
    bytes_in_flight_limit: int = 0
    is_ready: bool = True
    connections: dict[str, int] = field(default_factory=dict)
    #: Used and total bytes by device.
    device_memory: Mapping[str, Sequence[int]] = field(default_factory=dict)
