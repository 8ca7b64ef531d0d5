"""Write the PTX that NVRTC makes of every rounding kernel, for every architecture.

    .venvs/kernels/bin/python tools/proof/write_ptx.py build/ptx

A file is named ``float16.toward_zero.sm_90.ftz.ptx``, or without ``ftz`` if it keeps subnormals.
The folder is emptied first. CuPy and NVRTC are needed, a GPU is not.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from compile_kernels import ARCHITECTURES, compiled, source  # noqa: E402
