"""Every pattern of every float but float64, and many of that, in every direction.

Also every conversion from a type of at most 16 bits.

    python -m exhaustive [--target numpy|compiled|cuda-text|device]... [--operator round|cast]...

The reference is reference.c as a shared library, which is itself held against the tests' Python
reference first. Exit status 1 on any mismatch.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, ROUNDINGS

from .sweeps import (
    CASTS,
    CHUNK,
    DEVICE_CHUNK,
    TARGETS,
    TargetMissing,
    Task,
    by_python,
    mismatches,
    reference,
    sweep,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="exhaustive", description=__doc__)
    parser.add_argument("--library", type=Path, default=Path("build/reference.so"))
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all there are")
    parser.add_argument("--operator", action="append", choices=("round", "cast"))
    parser.add_argument("--dtype", action="append", help="of operands; default: all")
    parser.add_argument("--float64", type=int, default=1 << 30, help="random float64 patterns")
    options = parser.parse_args()
    right = reference(options.library)

    total = 0
    for dtype in ("float32", "float64"):
        sample = samples(dtype, random_count=1 << 20)
        for rounding in ROUNDINGS:
            total += mismatches(right, by_python, Task.rounding(dtype, rounding), sample)
    print(f"C reference against Python reference: {total} mismatches")

    kinds = options.operator or ["round", "cast"]
    roundings = [Task.rounding(dtype, way) for dtype in sorted(FLOATS) for way in ROUNDINGS]
    tasks = [
        task
        for task in (*roundings * ("round" in kinds), *CASTS * ("cast" in kinds))
        if options.dtype is None or task.source.name in options.dtype
    ]
    began = time.monotonic()
    for name in options.target or TARGETS:
        chunk = DEVICE_CHUNK if name == "device" else CHUNK
        try:
            with TARGETS[name]() as tried:
                for task in tasks:
                    found = sweep(tried, right, task, float64=options.float64, chunk=chunk)
                    total += found.mismatches or 0
                    print(f"{name:<9}  {found}", flush=True)
        except TargetMissing as missing:
            print(f"{name}: not tried, {missing}")
            total += options.target is not None  # it was asked for
    print(f"exhaustive: {total} mismatches in {time.monotonic() - began:.0f} s")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
