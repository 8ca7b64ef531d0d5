"""Write the PTX that NVRTC makes of GPU kernels.

    PYTHONPATH=tools .venvs/kernels/bin/python -m proof.write_ptx build/ptx

It is that of every rounding kernel for every architecture, with subnormals and without, and that
of a conversion of each pair of types for one architecture in turn, as CuPy compiles it. A file is
named ``float16.toward_zero.sm_90.ftz.ptx`` or ``float32-to-int8.ties_to_even.sm_75.ftz.ptx``,
without ``ftz`` if it keeps subnormals. The folder is emptied first. CuPy and NVRTC are needed, a
GPU is not.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from compile_kernels import ARCHITECTURES, compiled, source
from tensor_round_service.backends.cuda.launches import launch_of

from .cases import ROUNDINGS, Case, compiled_conversions


def write(folder: Path, case: Case, architecture: int, flush: bool) -> None:
    """Write one file."""
    kind = f"sm_{architecture}{'.ftz' if flush else ''}"
    _, text = compiled(source(launch_of(*case, 1).kernel), architecture, flush=flush)
    (folder / f"{case.file_name}.{kind}.ptx").write_text(text)


def main(folder: Path) -> None:
    """Write all of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kinds = list(product(ROUNDINGS, ARCHITECTURES, (True, False)))
    for case, turn in compiled_conversions():
        kinds.append((case, ARCHITECTURES[turn % len(ARCHITECTURES)], True))
    with ProcessPoolExecutor() as workers:
        list(workers.map(write, [folder] * len(kinds), *zip(*kinds, strict=True), chunksize=8))
    print(f"{len(kinds)} files in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
