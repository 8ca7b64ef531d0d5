"""The same readers, fed by atheris: the code that an input reaches decides the next input.

    python -m fuzz.guided --seconds 30 --seed 1

Each reader has a process of its own, as libFuzzer ends the one it runs in. Where atheris is not
installed (there are no wheels for every platform) this says so and ends well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

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


def main() -> int:
    """Every reader in turn; 1 if any of them has failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", nargs="?")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if find_spec("atheris") is None:
        print("atheris is not installed: nothing is led by coverage")
        return 0
    if options.reader:
        lead(options.reader, options.seconds, options.seed)
    from . import parsers

    failed = []
    for name in parsers.targets():
        command = [sys.executable, "-m", "fuzz.guided", name]
        limits = ["--seconds", str(options.seconds), "--seed", str(options.seed)]
        with tempfile.TemporaryDirectory(prefix="findings-") as findings:
            done = subprocess.run([*command, *limits], capture_output=True, text=True, cwd=findings)
        runs = next(
            (line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line), "?"
        )
        print(f"{name}: {runs} inputs, {'0 faults' if done.returncode == 0 else 'a fault'}")
        if done.returncode:
            failed.append(name)
            print(done.stdout[-2000:], done.stderr[-4000:], sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
