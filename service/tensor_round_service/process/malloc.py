"""Settings of glibc's malloc: keep freed memory for the next request.

By default glibc returns free memory at the end of the heap to the system if it is 128 KiB or
more. The first part of every body is received into such memory. If it is at the end of the heap,
which is chance, each request costs about 150 page faults. With these settings it costs none, and
at most :data:`KEPT_HEAP_BYTES` stay unused.
"""

from __future__ import annotations

import ctypes
import os

#: Maximum size of the free memory at the end of the heap.
KEPT_HEAP_BYTES = 8 << 20
#: Blocks below this size are on the heap; larger ones are mapped.
HEAP_BLOCK_BYTES = 2 << 20

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Apply the settings if the C library is glibc and the environment has no malloc settings."""
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_HEAP_BYTES)
    mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
