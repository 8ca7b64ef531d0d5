"""Which replicas to start and which to drain: decided from what is seen, without side effects."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

#: Seconds after which a replica that is not placed shows that the cluster has no room for it.
NO_ROOM_SECONDS = 10.0


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
