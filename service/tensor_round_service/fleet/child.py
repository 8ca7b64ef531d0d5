"""The service as the child process of a replica's actor: ``python -m`` this module.

When the actor has ended, however it did, so has the pipe at standard input: then the service
drains, as after SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

from ..process.serve import run


def _stop_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    # Ray runs its workers with niceness 15; the CPUs of a replica are reserved for it.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    sys.exit(run([]))
