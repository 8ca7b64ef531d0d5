"""Random scripts of requests over many connections, with the exact response known to each request.

Each connection sends a script: requests of every kind, valid and refused, in groups or one after
another, cut anywhere, to any kind of end. Every response that is owed must come, in order, with its
bits, and nothing else. Half of the connections are plain and half over TLS, each half to a service
of its own, which must hold nothing when all are over. The same seed makes the same scripts.

``python -m stress mixes`` plays thousands; this plays one again:

    python -m fuzz.mixes NUMBER [--seed 1] [--times 1]
"""

from __future__ import annotations

import argparse
import sys

from .run import mixed
from .scripts import is_encrypted, script


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.mixes", description=__doc__.partition("\n")[0])
    parser.add_argument("number", type=int, help="of the connection")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="how often")
    options = parser.parse_args()
    print(script(options.seed, options.number))
    numbers = [options.number] * options.times
    encrypted = is_encrypted(options.number)
    report = mixed(options.seed, numbers, encrypted=encrypted).report(options.seed)
    print(report.text(f"connection {options.number}"))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
