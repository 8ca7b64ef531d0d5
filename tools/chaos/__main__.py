"""Clients and a service with everything between them going wrong, for minutes.

    python -m chaos --minutes 3 --seed 1

Prints what was done to calls and what became of them; exits with 1 if a promise was broken
(:mod:`chaos.calls`).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from .calls import GRACE, Findings
from .storm import storm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = storm(options.seed, seconds=options.minutes * 60)
    report(found)
    return 1 if found.violations else 0


def report(found: Findings) -> None:
    """Calls by single fault and outcome, and each broken promise."""
    faults = sorted({fault for faults, _ in found.outcomes for fault in faults.split(", ")})
    for fault in faults:
        by_outcome: Counter[str] = Counter()
        for (met, outcome), times in found.outcomes.items():
            if fault in met.split(", "):
                by_outcome[outcome] += times
        told = ", ".join(f"{outcome} {times:,}" for outcome, times in by_outcome.most_common())
        print(f"{fault:15}{by_outcome.total():8,}: {told}")
    calls, (seconds, timeout) = found.outcomes.total(), found.slowest
    print(
        f"{calls:,} calls: {len(found.violations)} broken promises; the slowest against its "
        f"deadline took {seconds:.2f} s of {timeout:g} s (at most {GRACE:g} s more may be)"
    )
    print(*found.violations[:20], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
