"""One run: every server, every size, every load; tables to read and a JSON file to keep."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import anatomy, goals, latency, load, machine, memory, tables, targets
from .client import Arena
from .targets import HERE, MIB

#: Where torch, ONNX Runtime and OpenVINO are, to compare kernels with.
ORACLES = Path(".venvs/oracles/bin/python")
#: Where a quick run is written: its figures are not worth keeping.
QUICK = Path("build/bench/quick.json")

BEGAN = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, smaller tensors: to try the bench"
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    arguments = parser.parse_args()
    results = measure(quick=arguments.quick)
    print(tables.title(results) + "\n\n" + tables.render(results))
    output = arguments.output or (QUICK if arguments.quick else kept(results))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {output}")


def measure(*, quick: bool) -> dict[str, Any]:
    """Every figure of a run."""
    results: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": machine.describe(),
    }
    sizes: tuple[latency.Size, ...] = latency.SIZES
    if quick:
        sizes = tuple(replace(size, rounds=2) for size in sizes if size.nbytes <= 64 * MIB)
    arena = Arena(max(latency.SIZES[-1].nbytes, memory.PAYLOAD))
    tell("starting the servers")
    with targets.servers() as (running, not_running):
        found, missing = targets.available(running, not_running, arena)
        tell("one connection")
        results["latency"] = latency.measure(running, found, arena, sizes)
        tell("many connections")
        rounds = 1 if quick else load.ROUNDS
        results["load"] = load.measure(running, found, arena, rounds, missing)
    tell("memory")
    results["memory"] = memory.measure(found, arena)
    tell("layers")
    results["anatomy"] = anatomy.measure()
    tell("kernels")
    results["kernels"] = [] if quick else kernels(missing)
    results["missing"] = missing
    results["goals"] = goals.judged(results)
    results["seconds"] = round(time.monotonic() - BEGAN)
    return results


def kernels(missing: dict[str, str]) -> list[dict[str, Any]]:
    """The kernel table, with the other stacks where they are installed."""
    if not ORACLES.exists():
        missing["other stacks' kernels"] = "not installed: make bench-peers"
    python = str(ORACLES) if ORACLES.exists() else sys.executable
    program = "import json; from bench import kernels; print(json.dumps(kernels.rows()))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    if done.returncode:
        missing["kernels"] = done.stderr.strip().rsplit("\n", 1)[-1]
        return []
    rows: list[dict[str, Any]] = json.loads(done.stdout.rsplit("\n", 2)[-2])
    return rows


def kept(results: dict[str, Any]) -> Path:
    """Where a run's results stay: by its day and processor."""
    cpu = re.sub(r"[^a-z0-9]+", "-", results["machine"]["cpu"].lower()).strip("-")
    name = f"{results['date'][:10]}-{cpu}-{results['machine']['cores']}-cores.json"
    return HERE / "results" / name


def tell(what: str) -> None:
    print(f"bench: {time.monotonic() - BEGAN:4.0f} s  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
