"""Mutants of the modules, judged by the tests beside them.

    python -m mutants [--every N] [PART OF A PATH]...

A survivor is a change that no test there notices. Ends with 1 if, in a module, fewer than 95 % of
the mutants are noticed that ``survivors.toml`` does not list, or if it lists one that is noticed.
Verdicts are kept in ``build/mutants``: of a text that was noticed for ever, of a survivor until a
test beside it changes. Without that folder all are judged anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from .judging import ROOT, Order, Room
from .mutations import Mutant, mutants

#: Folders and modules whose mutants are judged.
SELECTED = (
    "client/tensor_round/contract",
    *(f"service/tensor_round_service/{room}" for room in ("codec", "content", "http1", "engine")),
    "service/tensor_round_service/backends/cuda/kernels.py",
    "service/tensor_round_service/backends/cpu/llvm_kernels.py",
)
#: The share of mutants that tests must notice.
NOTICED = 0.95
#: Another where a fault of the judge is mended: what it has said before is not kept.
_EDITION = "2"
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


def beside(module: Path) -> list[Path]:
    """The tests in the folder that mirrors a module's, or in the nearest one above it.

    Those that are named after the module are first, then short files.
    """
    package, _, *rest = module.parent.parts
    folder = ROOT.joinpath("tests", package, *rest)
    while not (found := list(folder.glob("test_*.py"))):
        folder = folder.parent
    return sorted(found, key=lambda file: (module.stem not in file.stem, file.stat().st_size))


def judge(module: Path, rooms: queue.Queue[Room], kept: dict[str, str], every: int) -> bool:
    """Judge the mutants of a module, print its row, and say whether enough were noticed.

    One of ``every`` is judged, at least one, drawn by the module's name.
    """
    text, tests = (ROOT / module).read_text(), beside(module)
    tested = "".join(file.read_text() for file in tests)
    found = list(mutants(text, is_kernel=module.stem.endswith("kernels")))
    drawn = random.Random(str(module)).sample(found, len(found))[: -(-len(found) // every)]
    verdicts: dict[str, str] = {}
    left: list[tuple[Mutant, str, str]] = []
    for mutant in drawn:
        noticed, survived = (_digest(mutant.text, rest) for rest in ("", tested))
        if verdict := kept.get(noticed) or kept.get(survived):
            verdicts[mutant.name] = verdict
        else:
            left.append((mutant, noticed, survived))
    if left:
        order, limit = _order(module, tests, rooms)

    def one(each: tuple[Mutant, str, str]) -> None:
        mutant, noticed, survived = each
        room = rooms.get()
        room.open(module, tests)
        verdict = verdicts[mutant.name] = room.judge(mutant, order.tests(mutant.line), limit)
        rooms.put(room)
        kept_as = survived if verdict == "survived" else noticed
        with VERDICTS.open("a") as file:
            file.write(json.dumps({kept_as: verdict}) + "\n")

    with ThreadPoolExecutor(rooms.maxsize) as pool:
        list(pool.map(one, left))
    ordered = {mutant.name: verdicts[mutant.name] for mutant in drawn}
    return report(module, ordered, {mutant.name for mutant in found})


def _order(module: Path, tests: list[Path], rooms: queue.Queue[Room]) -> tuple[Order, float]:
    """The order of the tests of a module, and the seconds that they may take on a mutant.

    Those of all modules with the same tests are traced at once.
    """
    room = rooms.get()
    room.open(module, tests)
    if module not in _ORDERS:
        alike = [each for each in modules([]) if set(beside(each)) == set(tests)]
        _ORDERS.update(room.trace(alike))
    order = _ORDERS[module]
    began = time.monotonic()
    as_it_is = Mutant("as it is", (ROOT / module).read_text(), 0)
    if room.judge(as_it_is, order.tests(0)) != "survived":
        sys.exit(f"{room.log.read_text()}\nthe tests beside {module} do not pass")
    rooms.put(room)
    # On a busy machine a run may take several times as long as another.
    return order, 10 + 4 * (time.monotonic() - began)


_ORDERS: dict[Path, Order] = {}


def report(module: Path, verdicts: Mapping[str, str], names: Set[str]) -> bool:
    """Print the row of a module, of whose mutants, ``names``, some were judged."""
    listed = LISTED.get(str(module), {})
    survivors = {name for name, verdict in verdicts.items() if verdict == "survived"}
    unlisted = survivors - listed.keys()
    stale = {
        name for name in listed if name not in names or verdicts.get(name, "survived") != "survived"
    }
    count = Counter(verdicts.values())
    noticed = count["killed"] + count["timeout"]
    excused = len(survivors - unlisted)
    share = noticed / (noticed + len(unlisted) or 1) if verdicts else 1.0
    print(
        f"{module}: {len(verdicts)} of {len(names)} mutants, {count['killed']} killed,"
        f" {count['timeout']} timeouts, {len(unlisted)} survived, {excused} listed:"
        f" {share:.1%} noticed"
    )
    for name in verdicts:
        if name in unlisted:
            print(f"  survived: {name}")
    for name in stale:
        print(f"  listed, but no survivor: {name}")
    return share >= NOTICED and not stale


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join((_EDITION, *texts)).encode()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="of a module's path")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    parser.add_argument("--every", type=int, default=1, help="judge one of so many")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    kept = {key: verdict for line in lines for key, verdict in json.loads(line).items()}
    rooms: queue.Queue[Room] = queue.Queue(options.jobs)
    # An interrupted run closes its rooms, too: Python would wait at its end for their processes.
    with TemporaryDirectory() as folder, ExitStack() as opened:
        for number in range(options.jobs):
            room = Room(Path(folder, str(number)))
            opened.callback(room.close)
            rooms.put(room)
        enough = [judge(module, rooms, kept, options.every) for module in modules(options.parts)]
    if not enough:
        parser.error(f"no module has {' or '.join(options.parts)} in its path")
    return 0 if all(enough) else 1


if __name__ == "__main__":
    sys.exit(main())
