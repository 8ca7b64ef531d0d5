"""Mutants of the modules, judged by the tests beside them.

    python -m mutants [PART OF A PATH]...

A survivor is a change that no test there notices. Ends with 1 if, in a module, fewer than 95 % of
the mutants are noticed that ``survivors.toml`` does not list, or if it lists one that is noticed.
Verdicts are kept in ``build/mutants`` for as long as they hold: of a module that has not changed,
and those of survivors until a test beside it changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .judging import ROOT, Room, Times
from .mutations import Mutant, mutants

#: Folders and modules whose mutants are judged.
SELECTED = (
    "client/tensor_round/contract",
    *(f"service/tensor_round_service/{room}" for room in ("codec", "http1", "engine")),
    "service/tensor_round_service/backends/cuda/kernels.py",
    "service/tensor_round_service/backends/cpu/llvm_kernels.py",
)
#: The share of mutants that tests must notice.
NOTICED = 0.95
BUILD = ROOT / "build/mutants"
VERDICTS = BUILD / "verdicts.jsonl"
LISTED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("survivors.toml").read_text()
)


def modules(parts: list[str]) -> list[Path]:
    """The selected modules whose path has one of ``parts``, or all."""
    files = [f for each in SELECTED for f in (sorted((ROOT / each).rglob("*.py")) or [ROOT / each])]
    found = [file.relative_to(ROOT) for file in files]
    return [file for file in found if not parts or any(part in str(file) for part in parts)]


def tests_beside(module: Path) -> Path:
    """The folder of tests that mirrors a module's, or the nearest one above it."""
    package, _, *rest = module.parent.parts
    folder = Path("tests", package, *rest)
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return folder


def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def judge(module: Path, rooms: queue.Queue[Room], kept: Mapping[str, dict[str, Any]]) -> bool:
    """Judge the mutants of a module, print its row, and say whether enough were noticed."""
    text = (ROOT / module).read_text()
    found = list(mutants(text, is_kernel=module.stem.endswith("kernels")))
    tests = tests_beside(module)
    of_module = digest(ROOT / module)
    of_tests = digest(*sorted((ROOT / tests).rglob("*.py")))
    verdicts = {
        mutant.name: verdict["verdict"]
        for mutant in found
        if (verdict := kept.get(f"{module}: {mutant.name}"))
        and verdict["module"] == of_module
        and (verdict["verdict"] != "survived" or verdict["tests"] == of_tests)
    }
    left = [mutant for mutant in found if mutant.name not in verdicts]
    times = Times(module.stem)
    if left:
        room = rooms.get()
        # An hour: what the tests take at most, each with a limit of its own.
        if room.judge(module, text, tests, times, 3600) != "survived":
            sys.exit(f"{tests} does not pass: {room.folder}/log")
        rooms.put(room)
    limit = 20 + 5 * sum(s for name, s in times.seconds.items() if "::" not in name)

    def one(mutant: Mutant) -> None:
        room = rooms.get()
        try:
            verdict = room.judge(module, mutant.text, tests, Times(**times_now), limit)
        finally:
            rooms.put(room)
        verdicts[mutant.name] = verdict
        kept_one = {"name": f"{module}: {mutant.name}", "verdict": verdict}
        with VERDICTS.open("a") as file:
            file.write(json.dumps({**kept_one, "module": of_module, "tests": of_tests}) + "\n")

    times_now = {"stem": times.stem, "seconds": times.seconds}
    with ThreadPoolExecutor(rooms.maxsize) as pool:
        list(pool.map(one, left))
    return report(module, verdicts)


def report(module: Path, verdicts: Mapping[str, str]) -> bool:
    listed = LISTED.get(str(module), {})
    survivors = [name for name, verdict in verdicts.items() if verdict == "survived"]
    unlisted = [name for name in survivors if name not in listed]
    stale = [name for name in listed if name not in survivors]
    count = Counter(verdicts.values())
    judged = len(verdicts) - len(survivors) + len(unlisted)
    share = 1 - len(unlisted) / max(judged, 1)
    print(
        f"{module}: {len(verdicts)} mutants, {count['killed']} killed, {count['timeout']} timeouts,"
        f" {len(unlisted)} survived, {len(survivors) - len(unlisted)} listed; {share:.1%} noticed"
    )
    for name in unlisted:
        print(f"  survived: {name}")
    for name in stale:
        print(f"  listed, but no survivor: {name}")
    return share >= NOTICED and not stale


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="of a module's path; by default all"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at once; 2 by default")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    kept = {verdict["name"]: verdict for verdict in map(json.loads, lines)}
    rooms: queue.Queue[Room] = queue.Queue(options.jobs)
    for number in range(options.jobs):
        rooms.put(Room(BUILD / f"room-{number}"))
    enough = [judge(module, rooms, kept) for module in modules(options.parts)]
    if not enough:
        parser.error(f"no module has {', '.join(options.parts)} in its path")
    return 0 if all(enough) else 1


if __name__ == "__main__":
    sys.exit(main())
