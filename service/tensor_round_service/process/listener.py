"""The listening sockets of a service, which its workers share."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any, Self

from ..settings import Settings

#: Maximum number of connections that wait to be accepted; the system may allow fewer.
BACKLOG = 2048


class CannotListen(Exception):
    """The address in the settings cannot be bound; the message says why."""


class Listener:
    """Bound, listening sockets; a context manager that closes them.

    The constructor raises :class:`CannotListen`. It replaces the file of a Unix socket on which
    no process listens.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = settings.uds
        #: Those for /metrics alone, if it has a port of its own.
        self.metrics_sockets: list[socket.socket] = []
        if settings.uds is not None:
            try:
                self.sockets = [_bind_path(settings.uds)]
            except OSError as error:
                reason = _reason(error)
                raise CannotListen(f"cannot listen on {settings.uds}: {reason}") from None
            self.name = f"unix socket {settings.uds}"
        else:
            self.sockets = listen(settings.host, settings.port)
            scheme = "http" if settings.ssl_certfile is None else "https"
            self.name = url(scheme, settings.host, self.sockets[0].getsockname()[1])
        if settings.metrics_port is not None:
            try:
                self.metrics_sockets = listen(settings.host, settings.metrics_port, " for metrics")
            except CannotListen:
                self.close()
                raise
            self.name += f" (metrics on port {self.metrics_sockets[0].getsockname()[1]})"

    def close(self) -> None:
        """Remove the file of a Unix socket, then close the sockets.

        In this order: after the close, another service may have replaced the file.
        """
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        for sock in (*self.sockets, *self.metrics_sockets):
            sock.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the sockets for a worker; only the supervisor removes the file."""
        return {**self.__dict__, "_path": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def listen(host: str, port: int, purpose: str = "") -> list[socket.socket]:
    """Listening sockets on all addresses of a host. Raises :class:`CannotListen`."""
    try:
        return _bind_host(host, port)
    except (OSError, UnicodeError) as error:
        reason = _reason(error)
        raise CannotListen(f"cannot listen on {host}:{port}{purpose}: {reason}") from None


def url(scheme: str, host: str, port: int) -> str:
    """The URL of a host, which may be an IPv6 address."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _bind_host(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host; localhost may have two."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address[0]) for family, _, _, _, address in found))
    # A single IPv6 address may be "::", which means all addresses of both families.
    dual = len(addresses) == 1 and addresses[0][0] == socket.AF_INET6
    socks: list[socket.socket] = []
    missing_family: OSError | None = None
    for family, address in addresses:
        try:
            sock = socket.create_server(
                (str(address), port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
            )
        except OSError as error:
            # In a container, localhost may have an address of a family that is not available.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for sock in socks:
                    sock.close()
                raise
            missing_family = error
        else:
            socks.append(sock)
            port = sock.getsockname()[1]  # with port 0, the same free port for all
    if missing_family is not None and not socks:
        raise missing_family
    return socks


def _bind_path(path: Path) -> socket.socket:
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(str(path))
        # The permissions of the folder control who may connect.
        path.chmod(0o666)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _remove_stale(path: Path) -> None:
    """Remove the socket file of a killed service, but not that of a running one."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError("the path is a file that is not a socket")
        with socket.socket(socket.AF_UNIX) as sock:
            # A timeout means that a busy service listens.
            sock.settimeout(1)
            try:
                sock.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FileExistsError("another service listens on it")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (getattr(error, "strerror", None) or str(error)).lower()
