"""The same readers, fed by atheris: the code that an input reaches decides the next input.

Each reader has a process of its own, ``python -m fuzz.guided READER SECONDS SEED``, as libFuzzer
ends the one it runs in. Where atheris is not installed (there are no wheels for every platform)
the report says so.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from stress.metrics import Report

#: The longest input that is made up, in bytes.
LONGEST = 4096


def lead(name: str, seconds: int, seed: int) -> None:
    """Feed one reader for so long; does not return."""
    import atheris

    with atheris.instrument_imports(include=["tensor_round", "tensor_round_service"]):
        from . import parsers
    target = parsers.targets()[name]

    def test_one(data: bytes) -> None:
        # Whatever is not documented is raised, and found by libFuzzer.
        parsers.outcome(target, data)

    with tempfile.TemporaryDirectory(prefix="corpus-") as corpus:
        for number, valid in enumerate(target.valid):
            Path(corpus, str(number)).write_bytes(valid)
        limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=5"]
        options = [*limits, f"-seed={seed}", "-verbosity=0", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, corpus], test_one)
        atheris.Fuzz()


def run(seconds: float, seed: int) -> Report:
    """The row of the table: so many seconds for every reader in turn."""
    if find_spec("atheris") is None:
        return Report(
            "not run: atheris is not installed, which has wheels for some platforms alone"
        )
    from . import parsers

    report = Report(f"{seconds:g} seconds a reader (seed {seed})")
    for name in parsers.targets():
        command = [sys.executable, "-m", "fuzz.guided", name, f"{seconds:.0f}", str(seed)]
        with tempfile.TemporaryDirectory(prefix="findings-") as findings:
            done = subprocess.run(command, capture_output=True, text=True, cwd=findings)
        lines = (line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line)
        report.figures += f"\n{name}: {next(lines, '?')} inputs"
        if done.returncode:
            report.faults.append(f"{name}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return report


if __name__ == "__main__":
    lead(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
