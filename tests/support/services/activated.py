"""A service on sockets that this process holds, as systemd holds those of a socket unit."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.services.server import Process, Service

#: Becomes the service in the same process, whose id LISTEN_PID has to be.
_BECOME = """
import os, sys
count, *rest = sys.argv[1:]
for number, file in enumerate(map(int, rest[:int(count)]), 3):
    os.dup2(file, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count)
os.execv(sys.executable, [sys.executable, "-m", *rest[int(count):]])
"""


class ActivatedService(Service):
    """The service on inherited sockets; ``names`` are those of LISTEN_FDNAMES."""

    def __init__(self, *options: str, sockets: list[socket.socket], names: str = "") -> None:
        super().__init__(*options, environment={"LISTEN_FDNAMES": names})
        self._sockets = sockets

    def _options(self) -> list[str]:
        return [*self.options]

    def launch(  # type: ignore[override]  # these are started in a way of their own
        self, module: str, options: list[str], environment: dict[str, str], errors: int
    ) -> Process:
        files = [sock.fileno() for sock in self._sockets]
        # Above those that dup2 writes to.
        high = [fcntl.fcntl(file, fcntl.F_DUPFD, 16) for file in files]
        command = [sys.executable, "-c", _BECOME, str(len(files)), *map(str, high)]
        try:
            return subprocess.Popen(
                [*command, "support.services.without_llvmlite", *options],
                stderr=errors, env=environment, pass_fds=high,
            )  # fmt: skip
        finally:
            for file in high:
                os.close(file)


@contextlib.contextmanager
def held(path: Path | None = None) -> Iterator[socket.socket]:
    """A listening socket, on a port of its own or at a path."""
    if path is None:
        sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    else:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        sock.listen(512)
    with sock:
        yield sock
