"""Prove that every rounding kernel is exact, for every operand: ``make prove``.

    python -m proof [--ptx FOLDER] [--solver z3] [--way "LLVM IR"]... [--dtype float64]...
                    [--fault "NaNs quieted"] [--write FOLDER] [--record]

Exit status 1 if anything is not proved: a wrong result, a text that is not understood, a control
that is not found, or a solver that gives up.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

from . import page
from .claims import CASTS
from .faults import FAULTS
from .prove import Outcome, all_jobs, job_of, prove
from .solve import SOLVERS


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove, and print what was proved."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("--ptx", type=Path, help="folder of tools/proof/write_ptx.py")
    parser.add_argument("--solver", choices=SOLVERS, default="bitwuzla")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each question")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--way", action="append", help="default: all")
    parser.add_argument("--dtype", action="append", help="default: all")
    parser.add_argument("--fault", choices=FAULTS, help="plant this fault, and prove its text")
    parser.add_argument("--write", type=Path, help="a folder for the scripts of roundings and PTX")
    parser.add_argument("--record", action="store_true", help="write docs/exactness.md's table")
    options = parser.parse_args(arguments)

    began = time.perf_counter()
    fault, ptx = options.fault, options.ptx
    jobs = [
        job
        for job in ([job_of(fault, ptx)] if fault else all_jobs(ptx))
        if not options.way or job.way in options.way
        if not options.dtype or job.types in options.dtype
    ]
    if options.processes == 1:
        outcomes = prove(jobs, options.solver, options.limit)
    else:
        with ProcessPoolExecutor(options.processes) as workers:
            outcomes = prove(jobs, options.solver, options.limit, workers.map)
    for outcome in outcomes:
        job = outcome.job
        for problem in outcome.problems:
            print(f"NOT PROVED: {job.way}, {job.types}, {job.manner}: {problem}")
        if options.write and job.way not in CASTS:
            _write(options.write, outcome)
    print(*page.summary(outcomes), sep="\n")
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    package = {"z3": "z3-solver"}.get(options.solver, options.solver)
    print(
        f"prove: {sum(page.counted(outcomes).values())} texts by {options.solver} "
        f"{version(package)}, {failed} not proved, {time.perf_counter() - began:.0f} s"
    )
    if options.record and not failed:
        page.record(outcomes, ptx)
    return 1 if failed or not outcomes else 0


def _write(folder: Path, outcome: Outcome) -> None:
    """Write a text's claims as SMT-LIB files: ``.unsat.smt2`` and ``.sat.smt2``."""
    folder.mkdir(parents=True, exist_ok=True)
    job = outcome.job
    for claim in outcome.claims:
        name = "-".join(f"{job.way} {job.types} {job.manner}".lower().replace(":", "").split())
        digest = hashlib.sha256(claim.denial.encode()).hexdigest()[:8]
        for script, result in ((claim.denial, "unsat"), (claim.control, "sat")):
            text = f"(set-info :status {result})\n{script}(check-sat)\n"
            (folder / f"{name}-{digest}.{result}.smt2").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
