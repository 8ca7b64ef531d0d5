"""Write the PTX that NVRTC makes of every rounding kernel, for every architecture.

    PYTHONPATH=tools .venvs/kernels/bin/python -m proof.write_ptx build/ptx

A file is named ``float16.toward_zero.sm_90.ftz.ptx``, or without ``ftz`` if it keeps subnormals.
The folder is emptied first. CuPy and NVRTC are needed, a GPU is not.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from compile_kernels import ARCHITECTURES, compiled, source
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS


def write(folder: Path, dtype: str, rounding: Rounding, architecture: int, flush: bool) -> None:
    """Write one file."""
    kind = f"sm_{architecture}{'.ftz' if flush else ''}"
    kernel = ROUND_KERNELS[BY_NAME[dtype], rounding]
    ptx = compiled(source(kernel), f"compute_{architecture}", flush=flush)
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    (folder / f"{dtype}.{rounding}.{kind}.ptx").write_text(text)


def main(folder: Path) -> None:
    """Write all of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kernels = [(dtype.name, rounding) for dtype, rounding in ROUND_KERNELS]
    kinds = [(*k, a, f) for k, a, f in product(kernels, ARCHITECTURES, (True, False))]
    with ProcessPoolExecutor() as workers:
        list(workers.map(write, [folder] * len(kinds), *zip(*kinds, strict=True), chunksize=8))
    print(f"{len(kinds)} files in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
