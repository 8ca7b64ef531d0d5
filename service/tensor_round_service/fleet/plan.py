"""How many replicas a load needs, which to start and which to drain: without side effects."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

#: Seconds after which a replica that is not placed shows that the cluster has no room for it.
NO_ROOM_SECONDS = 10.0
#: Seconds over which the load is averaged before replicas are added.
UP_SECONDS = 5.0


class Phase(Enum):
    """The life of a replica."""

    #: Ray has not placed it yet.
    PENDING = "pending"
    #: Its process runs, but has not been ready yet.
    STARTING = "starting"
    READY = "ready"
    #: It was ready, and its last check failed.
    FAILING = "failing"
    DRAINING = "draining"


@dataclass(eq=False)
class Member:
    """A replica of a fleet, as its controller sees it."""

    name: str
    phase: Phase = Phase.PENDING
    #: The handle of the actor, and the pending call of its status.
    actor: Any = None
    call: Any = None
    #: Whether it has the settings that are wanted now.
    is_current: bool = True
    url: str = ""
    node: str = ""
    #: Bytes in flight, as a part of its budget.
    load: float = 0.0
    #: Failed checks in a row.
    failures: int = 0
    since: float = field(default_factory=time.monotonic)

    def enter(self, phase: Phase) -> None:
        """Enter a phase, if it is another one."""
        if phase is not self.phase:
            self.phase, self.since = phase, time.monotonic()

    @property
    def seconds(self) -> float:
        """Time in this phase."""
        return time.monotonic() - self.since

    def __str__(self) -> str:
        return f"{self.name} ({self.url or 'not placed'})"


def next_steps(members: Sequence[Member], wanted: int) -> tuple[int, list[Member]]:
    """How many replicas to start, and which to drain, towards ``wanted`` current ones.

    Outdated replicas are replaced one at a time: a current one is started first, and an outdated
    one is drained when ``wanted`` others are ready. If the cluster has no room for one more, one
    of several is drained first.
    """
    live = [member for member in members if member.phase is not Phase.DRAINING]
    is_outdated = any(not member.is_current for member in live)
    has_no_room = any(
        member.is_current and member.phase is Phase.PENDING and member.seconds > NO_ROOM_SECONDS
        for member in live
    )
    floor = wanted - 1 if is_outdated and has_no_room and wanted > 1 else wanted
    ready = sum(member.phase is Phase.READY for member in live)
    on_node = Counter(member.node for member in live)
    drained: list[Member] = []
    for member in sorted(
        live,
        key=lambda m: (m.is_current, m.phase is Phase.READY, -on_node[m.node], m.load),
    ):
        if len(live) - len(drained) <= wanted or (member.phase is Phase.READY and ready <= floor):
            break
        ready -= member.phase is Phase.READY
        drained.append(member)
    return max(0, wanted + is_outdated - len(live)), drained


class Scaling:
    """Follows the load: within seconds if it rises, after ``down_after`` seconds if it falls.

    ``target`` is the wanted utilisation of the replicas' budgets.
    """

    def __init__(self, least: int, most: int, target: float, down_after: float) -> None:
        self._least, self._most = least, most
        self._target, self._down_after = target, down_after
        #: Times and loads, the oldest first.
        self._samples: list[tuple[float, float]] = []

    def wanted(self, replicas: int, load: float, now: float) -> int:
        """The number of replicas to have at time ``now``, instead of ``replicas``.

        ``load`` is bytes in flight, in units of a replica's whole budget.
        """
        self._samples.append((now, load))
        recent = [load for at, load in self._samples if at > now - UP_SECONDS]
        start = now - self._down_after
        window = [load for at, load in self._samples if at >= start]
        # Without a sample before the window, not all of the window was observed.
        is_observed = self._samples[0][0] <= start
        keep = min(replicas, self._enough_for(max(window))) if is_observed else replicas
        while len(self._samples) > 1 and self._samples[1][0] <= min(start, now - UP_SECONDS):
            del self._samples[0]
        wanted = max(keep, self._enough_for(sum(recent) / len(recent)))
        return min(max(wanted, self._least), self._most)

    def _enough_for(self, load: float) -> int:
        # Rounded, so that the error of a sum does not count as one more.
        return math.ceil(round(load / self._target, 6))
