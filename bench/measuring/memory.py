"""The most memory a server takes for one large request, beside what it had before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..peers.protocols import Connect
from ..peers.targets import KIB, MIB, PROGRAMS, TARGETS, Target
from .client import Arena
from .processes import started

PAYLOAD = 256 * MIB


def measure(targets: Collection[Target], arena: Arena) -> list[dict[str, Any]]:
    """Each in a server of its own that has had one small request."""
    return [
        growth(target.name, target.program, target.connect, arena, PAYLOAD)
        for target in TARGETS
        if target in targets and target.for_memory
    ]


def growth(name: str, program: str, connect: Connect, arena: Arena, payload: int) -> dict[str, Any]:
    """How far the peak rises with one request of so many bytes, in bytes."""
    found = PROGRAMS[program]
    with started(f"{program}-memory", found.command, found.environment) as server:
        with connect(server.address, arena, KIB) as call:
            call()
        before = server.reset_peak()
        with connect(server.address, arena, payload) as call:
            call()
        risen = server.peak_bytes() - before
    return {"target": name, "bytes": payload, "growth": risen}
