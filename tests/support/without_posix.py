"""Takes away from a process what Windows does not have, then runs a module's ``main``.

``python -m support.without_posix MODULE ARGUMENTS...``
"""

from __future__ import annotations

import asyncio
import importlib
import os
import select
import socket
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

import httpx2
import ml_dtypes
import numpy
import rich.console
import typer

#: Modules of the standard library.
MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "_posixshmem")
#: Names in modules of the standard library.
NAMES: dict[Any, tuple[str, ...]] = {
    os: (
        "fork",
        "killpg",
        "setsid",
        "getuid",
        "geteuid",
        "sched_getaffinity",
        "sysconf",
        "uname",
        "register_at_fork",
        "posix_fallocate",
        "posix_fadvise",
        "pread",
        "preadv",
        "pwrite",
        "O_NOFOLLOW",
        "O_DIRECTORY",
        "O_CLOEXEC",
    ),
    socket: ("AF_UNIX", "SO_REUSEPORT", "MSG_DONTWAIT"),
    select: ("poll", "epoll"),
}
#: Others' modules choose their way by the platform's name when they are imported.
IMPORTED = (asyncio, subprocess, tempfile, httpx2, ml_dtypes, numpy, rich.console, typer)


def take_away() -> None:
    """Remove the modules and names; ``socketpair`` stays, which Windows has in another way."""
    vars(socket)["socketpair"] = partial(socket.socketpair, socket.AF_UNIX)
    vars(sys)["modules"].update(dict.fromkeys(MODULES))  # so their import fails
    for module, names in NAMES.items():
        for name in names:
            vars(module).pop(name, None)


if __name__ == "__main__":
    take_away()
    main = importlib.import_module(sys.argv.pop(1)).main
    sys.exit(main())
