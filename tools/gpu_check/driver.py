"""Print the extra that fits the NVIDIA driver here, cuda12 or cuda13; nothing without a device.

Asks the driver itself, so that nothing must be installed to find that there is none.
"""

from __future__ import annotations

import ctypes


def extra() -> str:
    """``cuda12``, ``cuda13`` or the empty string."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    count, version = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return ""
    driver.cuDriverGetVersion(ctypes.byref(version))
    # 13000 is CUDA 13.0's; the next CUDA's driver runs what is made for this one.
    return "cuda13" if version.value >= 13000 else "cuda12"


if __name__ == "__main__":
    print(extra())
