"""One run: every server, every size, every load; tables to read and a JSON file to keep."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .libraries import measure as libraries
from .measuring import deployed, grpc, interpreter, latency, load, machine, memory, versions
from .measuring.client import Arena
from .peers import targets, variants
from .peers.targets import HERE, KIB, MIB
from .report import goals, results, tables

#: Where torch, ONNX Runtime and OpenVINO are, to compare kernels with.
ORACLES = Path(".venvs/oracles/bin/python")
#: Where a quick or partial run is written: its figures are not worth keeping.
TRIED = Path("build/bench/tried.json")

SECTIONS = ("latency", "load", "versions", "deployed", "grpc", "memory", "kernels")
#: What is measured only if it is asked for.
ASKED_FOR = ("libraries",)
#: Those whose rows are targets.
TARGETED = {"latency", "load", "memory", "versions"}
#: Those whose requests are large.
LARGE = {*TARGETED, "grpc", "libraries"}

BEGAN = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, smaller tensors: to try the bench"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=(*SECTIONS, *ASKED_FOR),
        help="measure these alone; such runs are not kept",
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    arguments = parser.parse_args()
    tell(f"{sys.executable}, {interpreter.build()}")
    if not interpreter.is_optimized():
        tell("no interpreter with PGO and venv was found: images have one, and are faster")
    measured = measure(arguments.only or SECTIONS, quick=arguments.quick)
    print(tables.title(measured) + "\n\n" + tables.render(measured))
    partial = arguments.quick or arguments.only
    output = arguments.output or (TRIED if partial else kept(measured))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(results.text(measured))
    print(f"\nwritten to {output}")


def measure(sections: Collection[str], *, quick: bool) -> dict[str, Any]:
    """Every figure of these sections."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": machine.describe(),
        **{section: [] for section in SECTIONS},
        "grpc_memory": [],
    }
    missing: dict[str, str] = {}
    arena = Arena(max(latency.SIZES[-1].nbytes, memory.PAYLOAD) if LARGE & {*sections} else KIB)
    if TARGETED & {*sections}:
        on_targets(found, sections, arena, missing, quick=quick)
    if "deployed" in sections:
        tell("what is deployed")
        with targets.servers(variants.PROGRAMS) as (running, not_running):
            missing |= not_running
            found["deployed"] = deployed.measure(running, arena, missing, quick=quick)
    if "grpc" in sections:
        over_grpc(found, arena, missing, quick=quick)
    if "kernels" in sections and not quick:
        tell("kernels")
        found |= kernels(missing)
    if "libraries" in sections:
        tell("libraries")
        found["libraries"] = libraries.measure(arena, missing, quick=quick)
    found["missing"] = missing
    judged = goals.judged(found)
    whole = len(sections) == len(SECTIONS)
    found["goals"] = [goal for goal in judged if whole or goal["measured"] is not None]
    found["seconds"] = round(time.monotonic() - BEGAN)
    return found


def on_targets(
    found: dict[str, Any],
    sections: Collection[str],
    arena: Arena,
    missing: dict[str, str],
    *,
    quick: bool,
) -> None:
    """The sections whose rows are targets."""
    sizes: tuple[latency.Size, ...] = latency.SIZES
    if quick:
        sizes = tuple(replace(size, rounds=2) for size in sizes if size.nbytes <= 64 * MIB)
    asked = (*targets.TARGETS, *targets.UNDER_LOAD)
    tell("starting the servers")
    with targets.servers({target.program for target in asked}) as (running, not_running):
        there, others = targets.available(asked, running, not_running, arena)
        missing |= others
        if "latency" in sections:
            tell("one connection")
            found["latency"] = latency.measure(running, there, arena, sizes, missing)
        if "load" in sections:
            tell("many connections")
            rounds = 1 if quick else load.ROUNDS
            found["load"] = load.measure(running, there, arena, rounds, missing)
        if "versions" in sections:
            tell("HTTP/2 beside HTTP/1.1")
            service = running[targets.ROUND.program]
            found["versions"] = versions.measure(service, arena, missing, quick=quick)
    if "memory" in sections:
        tell("memory")
        found["memory"] = memory.measure(there, arena)


def over_grpc(found: dict[str, Any], arena: Arena, missing: dict[str, str], *, quick: bool) -> None:
    """The service and Triton, over gRPC."""
    if not grpc.PYTHON.exists():
        missing[grpc.TRITONCLIENT] = "not installed: make bench PEERS=1"
        return
    tell("gRPC")
    found["machine"]["versions"] |= grpc.versions()
    with targets.servers({*grpc.OVER_GRPC.values()}) as (running, others):
        missing |= others
        found["grpc"] = grpc.measure(running, missing, quick=quick)
    found["grpc_memory"] = grpc.memory(running, arena)


def kernels(missing: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The tables of kernels, casts and quantization, with the other stacks that are installed."""
    if not ORACLES.exists():
        missing["other stacks' kernels"] = "not installed: make bench PEERS=1"
    python = str(ORACLES) if ORACLES.exists() else sys.executable
    program = (
        "import json; from bench.measuring import casts, kernels, quantization;"
        "print(json.dumps({'kernels': kernels.rows(), 'casts': casts.rows(),"
        " 'quantization': quantization.rows()}))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    if done.returncode:
        missing["kernels"] = done.stderr.strip().rsplit("\n", 1)[-1]
        return {"kernels": [], "casts": [], "quantization": []}
    rows: dict[str, list[dict[str, Any]]] = json.loads(done.stdout.rsplit("\n", 2)[-2])
    return rows


def kept(found: dict[str, Any]) -> Path:
    """Where a run's results stay: by its day and processor."""
    cpu = re.sub(r"[^a-z0-9]+", "-", found["machine"]["cpu"].lower()).strip("-")
    name = f"{found['date'][:10]}-{cpu}-{found['machine']['cores']}-cores.json"
    return HERE / "results" / name


def tell(what: str) -> None:
    print(f"bench: {time.monotonic() - BEGAN:4.0f} s  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
