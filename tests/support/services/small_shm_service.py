"""The service with a /dev/shm of its own, which is soon full. Linux, and root."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from support.services.server import Service
from tensor_round_service.process import serve

NBYTES = 1 << 20

_CLONE_NEWNS = 0x20000
_MS_REC_PRIVATE = 0x4000 | 1 << 18


class SmallShmService(Service):
    """Such a process; a context manager."""

    module = "support.services.small_shm_service"

    @property
    def objects(self) -> Path:
        """Where its objects are for others."""
        return Path(f"/proc/{self.pid}/root/dev/shm")


def may_mount() -> bool:
    """Whether this process may give a child of its own such a view of the machine."""
    child = os.fork()
    if child == 0:
        try:
            _mount()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _mount() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        lambda: libc.unshare(_CLONE_NEWNS),
        lambda: libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None),
        lambda: libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=%d" % NBYTES),
    ):
        if done():
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> int:
    _mount()
    return serve.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
