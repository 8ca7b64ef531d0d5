"""What the C library does with memory that was freed: keep some for the next request.

glibc gives the end of its heap back to the system from 128 KiB on, and large blocks at
once. The beginning of every body passes through such memory. Whether it lies at the heap's end
is chance; where it does, each request costs some 150 page faults, each with a page to be
zeroed. With these limits it is none, and no more than :data:`KEPT_BYTES` stay unused.
"""

from __future__ import annotations

import ctypes
import os

#: Free memory at the heap's end that is kept.
KEPT_BYTES = 8 << 20
#: Blocks below this size come from the heap; bodies' own memory is never taken from it.
HEAP_BLOCK_BYTES = 2 << 20

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Set the limits, where the C library has them and nobody else has set any."""
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
