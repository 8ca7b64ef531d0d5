"""Bulk runs that are killed at any moment: the same command continues, and nothing is lost."""

from __future__ import annotations

import json
import random
import tempfile
import time
from itertools import product
from pathlib import Path

from support.cases.array_cases import patterns
from support.cases.bulk_runs import (
    is_rounded,
    is_shown,
    quiet,
    recorded,
    rounded_requests,
    running,
    save,
    slow,
)
from support.command_line import good
from support.services.server import Service

from .report import Report

#: 48 tiles of 128 KiB, which are shards in Zarr arrays.
X = patterns("float32", 6 << 18).reshape(1536, 1024)
OPTIONS = ("--tile-bytes", 128 << 10, "--rounding", "ties_to_away")
STORED = {"chunks": (128, 128), "shards": (128, 256)}
KINDS = [*product(("npy", "zarr"), repeat=2)]
#: The most kills of one run, and the most seconds before each.
KILLS, SECONDS = 4, 1.0


def run(runs: float, seed: int) -> Report:
    """So many runs, from and to each kind of array in turn."""
    chance = random.Random(seed)
    report = Report("")
    kills = resumed = 0
    with Service() as service, slow(service, 0.08) as proxy:
        for turn in range(int(runs)):
            kind = KINDS[turn % len(KINDS)]
            with tempfile.TemporaryDirectory() as folder:
                source, target = (Path(folder) / f"{i}.{end}" for i, end in enumerate(kind))
                save(source, X, **STORED if kind[0] == "zarr" else {})
                for _ in range(chance.randint(1, KILLS)):
                    with running(proxy.url, source, target, *OPTIONS) as process:
                        time.sleep(chance.uniform(0, SECONDS))
                        kills += process.kill()
                    if is_shown(target):
                        break
                if not is_shown(target):
                    quiet(proxy)
                    before, sent = recorded(target, 0), rounded_requests(service)
                    done = good("round", source, target, *OPTIONS, "--json", url=service.url)
                    told = json.loads(done.stdout)
                    resumed += told["tiles_resumed"]
                    sent = rounded_requests(service) - sent
                    again = (told["tiles_resumed"], sent) != (before, told["tiles"] - before)
                    report.expect(f"{kind}: {before} tiles were done, {sent} sent", not again)
                report.expect(f"{kind}: wrong", is_rounded(target, X, "ties_to_away"))
    report.figures = f"{runs:g} runs, killed {kills} times; {resumed} tiles were not sent again"
    return report
