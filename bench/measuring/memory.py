"""The most memory a server takes for one large request, beside what it had before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..peers.targets import KIB, MIB, PROGRAMS, TARGETS, Target
from .client import Arena
from .processes import started

PAYLOAD = 256 * MIB


def measure(targets: Collection[Target], arena: Arena) -> list[dict[str, Any]]:
    """Each in a server of its own that has had one small request."""
    rows: list[dict[str, Any]] = []
    for target in TARGETS:
        if target not in targets or not target.for_memory:
            continue
        program = PROGRAMS[target.program]
        with started(f"{target.program}-memory", program.command, program.environment) as server:
            with target.connect(server.address, arena, KIB) as call:
                call()
            before = server.reset_peak()
            with target.connect(server.address, arena, PAYLOAD) as call:
                call()
            growth = server.peak_bytes() - before
        rows.append({"target": target.name, "bytes": PAYLOAD, "growth": growth})
    return rows
