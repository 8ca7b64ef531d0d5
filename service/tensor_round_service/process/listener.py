"""The sockets that a service listens on: bound once, shared by its workers."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..settings import Settings

#: Connections that may wait for a busy service; the system may allow fewer.
BACKLOG = 2048


class CannotListen(Exception):
    """Nothing can be bound at the address of the settings; says why."""


class Listener:
    """Bound, listening sockets; a context manager that closes them.

    Raises :class:`CannotListen`. A Unix socket that nobody listens on any more is taken
    over, and its file removed in the end.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.uds
        #: Those for /metrics alone, if it has a port of its own.
        self.metrics_sockets: list[socket.socket] = []
        try:
            if settings.uds is not None:
                self.sockets = [_bind_path(settings.uds)]
                self.name = f"unix socket {settings.uds}"
            else:
                self.sockets = _bind_host(settings.host, settings.port)
                scheme = "http" if settings.ssl_certfile is None else "https"
                host = f"[{settings.host}]" if ":" in settings.host else settings.host
                port = self.sockets[0].getsockname()[1]
                self.name = f"{scheme}://{host}:{port}"
        except (OSError, UnicodeError) as error:
            where = settings.uds or f"{settings.host}:{settings.port}"
            raise CannotListen(f"cannot listen on {where}: {_reason(error)}") from None
        if settings.metrics_port is not None:
            try:
                self.metrics_sockets = _bind_host(settings.host, settings.metrics_port)
            except (OSError, UnicodeError) as error:
                self.close()
                where = f"{settings.host}:{settings.metrics_port} for metrics"
                raise CannotListen(f"cannot listen on {where}: {_reason(error)}") from None
            self.name += f" (metrics on port {self.metrics_sockets[0].getsockname()[1]})"

    def close(self) -> None:
        """Listen no more.

        The file goes while somebody still listens on it: once nobody does, it may be a
        successor's.
        """
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        for plug in (*self.sockets, *self.metrics_sockets):
            plug.close()

    def __getstate__(self) -> dict[str, Any]:
        """What a worker gets: the sockets; the file stays its supervisor's."""
        return {**self.__dict__, "_path": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _bind_host(host: str, port: int) -> list[socket.socket]:
    """One socket for each address that the host has: localhost may have two."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address[0]) for family, _, _, _, address in found))
    # :: alone is every address of both kinds.
    dual = len(addresses) == 1 and addresses[0][0] == socket.AF_INET6
    plugs: list[socket.socket] = []
    absent: OSError | None = None
    for family, address in addresses:
        try:
            plug = socket.create_server(
                (str(address), port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
            )
        except OSError as error:
            # A container's localhost has an address of a kind that the container has not.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for plug in plugs:
                    plug.close()
                raise
            absent = error
        else:
            plugs.append(plug)
            port = plug.getsockname()[1]  # the one that 0 picked, for all
    if absent is not None and not plugs:
        raise absent
    return plugs


def _bind_path(path: Path) -> socket.socket:
    _remove_stale(path)
    plug = socket.socket(socket.AF_UNIX)
    try:
        plug.bind(str(path))
        # Who may connect is said by the folder that the socket is in.
        path.chmod(0o666)
        plug.listen(BACKLOG)
    except OSError:
        plug.close()
        raise
    return plug


def _remove_stale(path: Path) -> None:
    """Remove the socket file of a service that was killed; one that lives keeps its own."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError("there is a file that is no socket")
        with socket.socket(socket.AF_UNIX) as plug:
            # One that listens and is too busy to answer is alive.
            plug.settimeout(1)
            try:
                plug.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FileExistsError("another service listens there")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (getattr(error, "strerror", None) or str(error)).lower()
