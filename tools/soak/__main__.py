"""Mixed traffic against a real service for minutes; ends with 1 if anything was lost or wrong.

And if what the service holds is not flat after warm-up: see ``gauges/flatness.py`` for the rule.
"""

from __future__ import annotations

import argparse
import sys

from .soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").partition(";")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    found = soak(options.minutes * 60, options.seed, options.workers)
    print(found.summary())
    print(f"{options.minutes:g} minutes (seed {options.seed}): {len(found.faults)} faults")
    print(*found.faults, sep="\n")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
