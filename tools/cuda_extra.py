"""Print the extra that fits the NVIDIA driver here, cuda12 or cuda13; nothing without a GPU.

``nvidia-smi`` comes with the driver and shows the newest CUDA that the driver runs: as "CUDA
Version", and as "CUDA UMD Version" from driver 610 on. Nothing else must be installed to ask.
"""

from __future__ import annotations

import re
import subprocess
import sys

_SHOWN = re.compile(r"CUDA (?:UMD )?Version:\s*(\d+)\.")
_OLDEST, _NEWEST = 12, 13


def extra() -> str:
    """``cuda12``, ``cuda13`` or the empty string."""
    try:
        asked = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _SHOWN.search(asked.stdout)
    if asked.returncode != 0 or found is None:
        return ""  # a driver without a device, or a device without a driver
    cuda = int(found[1])
    if cuda < _OLDEST:
        print(f"the NVIDIA driver runs CUDA {cuda}, CuPy needs {_OLDEST}: no GPU", file=sys.stderr)
        return ""
    # A driver for a later CUDA runs what is made for an earlier one.
    return f"cuda{min(cuda, _NEWEST)}"


if __name__ == "__main__":
    print(extra())
