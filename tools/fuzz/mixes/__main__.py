"""Random scripts of requests over many connections, with the exact response known to each request.

Each connection sends a script: requests of every kind, valid and refused, in groups or one after
another, cut anywhere, to any kind of end. Every response that is owed must come, in order, with its
bits, and nothing else. Half of the connections are plain and half over TLS, each half to a service
of its own, which must hold nothing when all are over. The same seed makes the same scripts.

    python -m fuzz.mixes --count 4000 --seed 1
    python -m fuzz.mixes --seed 1 --only 17
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from .run import Findings, mixed
from .scripts import script

_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=4000, help="connections, of both kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of the one connection to repeat")
    parser.add_argument("--times", type=int, default=1, help="how often, with --only")
    options = parser.parse_args()
    numbers: Sequence[int] = range(options.count)
    if options.only is not None:
        numbers = [options.only] * options.times
        print(script(options.seed, options.only))
    began = time.perf_counter()
    found = Findings()
    for encrypted in (False, True):
        found += mixed(options.seed, numbers, encrypted=encrypted)
    for status, times in sorted(found.statuses.items()):
        print(f"{times:9,} {status}")
    print(*found.notes, sep="\n")
    print(
        f"{found.connections:,} connections (seed {options.seed}, with those to warm up) in "
        f"{time.perf_counter() - began:.0f} s: {sum(found.statuses.values()):,} responses, "
        f"{len(found.faults)} faults"
    )
    if found.kinds:
        print(*(f"{times:9,} {kind}" for kind, times in found.kinds.most_common()), sep="\n")
    print(*found.faults[:_SHOWN], sep="\n")
    if found.faults[_SHOWN:]:
        print(f"and {len(found.faults) - _SHOWN} more")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
