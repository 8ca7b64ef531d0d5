"""Sockets that another process has opened for the service: systemd's socket activation.

The environment names them, as sd_listen_fds(3) describes: LISTEN_FDS counts the file descriptors
from 3 on, LISTEN_PID is the process that they are for, LISTEN_FDNAMES has their names. They
outlive the service, so connections wait in them while it is replaced.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..settings import Settings
from .listener import CannotListen, is_loopback

#: The first file descriptor.
_FIRST = 3
#: The name of those that serve only /metrics.
METRICS = "metrics"
_VARIABLES = "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"


@dataclass(frozen=True)
class Inherited:
    """Listening sockets that belong to another process."""

    sockets: list[socket.socket] = field(default_factory=list)
    #: Those for /metrics alone.
    metrics_sockets: list[socket.socket] = field(default_factory=list)

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Inherited | None:
        """The sockets for this process; None if there are none. Raises :class:`CannotListen`.

        Removes the variables, which are not for processes that this one starts.
        """
        if environment.get("LISTEN_PID") != str(os.getpid()):
            return None
        count, _, names = (environment.pop(name, "") for name in _VARIABLES)
        if not count.isdecimal() or not int(count):
            raise CannotListen(f"LISTEN_FDS must be the number of sockets, got {count!r}")
        taken = cls()
        for number, name in zip(
            range(_FIRST, _FIRST + int(count)),
            [*names.split(":"), *[""] * int(count)],
            strict=False,
        ):
            sock = _listening(number)
            (taken.metrics_sockets if name == METRICS else taken.sockets).append(sock)
        if not taken.sockets:
            raise CannotListen(f"LISTEN_FDS has no socket but those named {METRICS}")
        return taken

    def applied_to(self, settings: Settings) -> Settings:
        """The settings with the sockets' addresses. Raises :class:`CannotListen`.

        HOST is a loopback address if any socket has one: then only known hosts are allowed.
        """
        addresses: dict[str, Any] = {}
        pairs = [s.getsockname()[:2] for s in self.sockets if s.family != socket.AF_UNIX]
        if pairs:
            local = (pair for pair in pairs if is_loopback(pair[0]))
            addresses["host"], addresses["port"] = next(local, pairs[0])
            addresses["uds"] = None
        else:
            addresses["uds"] = Path(self.sockets[0].getsockname())
        if self.metrics_sockets:
            if settings.metrics_port is not None:
                raise CannotListen(f"METRICS_PORT is set, and a socket named {METRICS} inherited")
            name = self.metrics_sockets[0].getsockname()
            addresses["metrics_port"] = 0 if isinstance(name, str) else name[1]
        return settings.model_copy(update=addresses)


def _listening(number: int) -> socket.socket:
    try:
        os.set_inheritable(number, False)
        sock = socket.socket(fileno=number)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise CannotListen(f"file descriptor {number} of LISTEN_FDS: {reason}") from None
    is_stream = sock.family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    is_stream = is_stream and sock.type == socket.SOCK_STREAM
    if not is_stream or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise CannotListen(
            f"file descriptor {number} of LISTEN_FDS is no listening stream socket; "
            "a systemd unit needs ListenStream= and Accept=no"
        )
    return sock
