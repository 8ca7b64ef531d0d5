"""``POST /round`` by HTTP/2 beside HTTP/1.1: one client, h2load, asks by both in turn."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..peers.protocols import native_fields
from ..peers.targets import KIB, MIB
from .blocks import in_turn
from .client import Arena
from .processes import Server

#: Of Debian's package nghttp2-client.
CLIENT = "h2load"
SECONDS, ROUNDS, QUICK_ROUNDS = 1, 9, 2
_RATE = re.compile(r"finished in .*?, ([\d.]+) req/s")
_DONE = re.compile(r"(\d+) done, (\d+) succeeded")


@dataclass(frozen=True)
class Load:
    """A tensor's size, and how many requests are under way: on connections, or one's streams."""

    nbytes: int
    at_once: int


LOADS = (Load(KIB, 1), Load(64 * KIB, 1), Load(MIB, 1), Load(KIB, 64))
VERSIONS = ("HTTP/1.1", "HTTP/2")


def measure(
    server: Server, arena: Arena, missing: dict[str, str], *, quick: bool
) -> list[dict[str, Any]]:
    """The requests a second of each load by each version."""
    if shutil.which(CLIENT) is None:
        missing["HTTP/2"] = f"{CLIENT} is not installed (Debian's nghttp2-client)"
        return []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for load in LOADS:
            body = Path(folder, str(load.nbytes))
            body.write_bytes(arena.tensor(load.nbytes).tobytes())
            blocks = {
                (version, load.nbytes, load.at_once): partial(block, server, body, version, load)
                for version in VERSIONS
            }
            found = in_turn(blocks, QUICK_ROUNDS if quick else ROUNDS, missing)
            for (version, nbytes, at_once), rates in found.items():
                about = {"version": version, "bytes": nbytes, "at_once": at_once}
                rows.append({**about, "median": statistics.median(rates), "rounds": rates})
    return rows


def block(server: Server, body: Path, version: str, load: Load) -> float:
    """The requests a second for a while; all of them must succeed."""
    is_first = version == VERSIONS[0]
    connections, streams = (load.at_once, 1) if is_first else (1, load.at_once)
    how = ["--h1"] if is_first else ["--window-bits=30", "--connection-window-bits=30"]
    command = [
        CLIENT,
        *how,
        f"--clients={connections}",
        f"--max-concurrent-streams={streams}",
        f"--duration={SECONDS}",
        f"--data={body}",
        *(f"--header={name}: {value}" for name, value in native_fields(load.nbytes).items()),
        f"http://127.0.0.1:{server.address}/round",
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, done = _RATE.search(output), _DONE.search(output)
    assert rate is not None
    assert done is not None
    if done[1] != done[2]:
        raise SystemExit(f"{CLIENT}: {done[0]} by {version}")
    return float(rate[1])
