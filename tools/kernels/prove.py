"""Every float32 pattern through the GPU kernels' text on this CPU, and many float64 ones.

    python -m tools.kernels.prove LIBRARY [--float64 COUNT]

LIBRARY is tools/exhaustive/reference.c as a shared library, which tools/exhaustive/prove.py
judges itself. Exit status 1 on any mismatch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tools.exhaustive.prove import c_reference, sweep

from support.devices.host_kernels import round_run
from tensor_round.conformance.reference import Bits
from tensor_round.dtypes import BY_NAME
from tensor_round.rounding import Rounding
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS, run_size


def kernels(dtype: str, rounding: str, patterns: Bits) -> Bits:
    """The kernels' answers, with subnormal float32 flushed as on a GPU."""
    results = np.empty_like(patterns)
    round_run(
        ROUND_KERNELS[BY_NAME[dtype], Rounding(rounding)],
        patterns.ctypes.data,
        patterns.nbytes,
        results.ctypes.data,
        run_size(patterns.nbytes),
        flushed=dtype == "float32",
    )
    return results


def main() -> int:
    """Judge the kernels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", type=Path, help="reference.c as a shared library")
    parser.add_argument(
        "--float64", type=int, default=1 << 30, metavar="COUNT", help="random float64 patterns"
    )
    options = parser.parse_args()
    judge = c_reference(options.library)
    total = 0
    for dtype, count in (("float32", 1 << 32), ("float64", options.float64)):
        for rounding in Rounding:
            wrong, seconds = sweep(kernels, judge, dtype, rounding, count)
            total += wrong
            print(
                f"kernel {dtype}  {rounding:<15}  {count} patterns  {wrong} mismatches  "
                f"{seconds:.1f} s",
                flush=True,
            )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
