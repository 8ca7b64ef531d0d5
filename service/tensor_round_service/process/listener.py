"""The listening sockets of a service, which its workers share.

The service binds them, or inherits them: systemd's socket activation. Its own end with it: before
they are closed, :meth:`Listener.turn_away` keeps new connections out, so that those that wait can
all be accepted. Inherited ones stay as they are: what waits in them is their next owner's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from ..failures import CannotStart
from ..settings import Settings

#: Maximum number of connections that wait to be accepted; the system may allow fewer.
BACKLOG = 2048
#: Time for the last packet of a TCP handshake, which the client believes to be over, to arrive
#: from another host. Within this machine it is over when the client's connect() returns.
HANDSHAKE_SECONDS = 0.3

#: ``SO_ATTACH_FILTER`` of Linux, which Python has no name for.
_SO_ATTACH_FILTER = 26
#: A classic BPF program that drops TCP segments with SYN and without ACK: it loads the flags,
#: masks both, and compares. All others pass, so that begun handshakes are completed.
_NO_SYN = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # A = segment[13]
        (0x54, 0, 0, 0x12),  # A &= SYN | ACK
        (0x15, 0, 1, 0x02),  # if A != SYN: skip one
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # pass
    )
)

#: The first inherited file descriptor.
_FIRST = 3
_VARIABLES = "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"


class CannotListen(CannotStart):
    """An address or an inherited socket cannot be used; the message says why."""


@dataclass(frozen=True)
class Inherited:
    """Listening sockets that another process has opened for the service, and still owns.

    The environment names them, as sd_listen_fds(3) describes: LISTEN_FDS counts the file
    descriptors from 3 on, and LISTEN_PID is the process that they are for. They outlive the
    service, so connections wait in them while it is replaced.
    """

    sockets: list[socket.socket]

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Inherited | None:
        """The sockets for this process; None if there are none. Raises :class:`CannotListen`.

        Removes the variables, which are not for processes that this one starts.
        """
        if environment.get("LISTEN_PID") != str(os.getpid()):
            return None
        count, *_ = (environment.pop(name, "") for name in _VARIABLES)
        if not count.isdecimal() or not int(count):
            raise CannotListen(f"LISTEN_FDS must be the number of sockets, got {count!r}")
        return cls([_listening(number) for number in range(_FIRST, _FIRST + int(count))])

    def applied_to(self, settings: Settings) -> Settings:
        """The settings with the sockets' addresses.

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
        return settings.model_copy(update=addresses)


class Listener:
    """Listening sockets; a context manager that closes them.

    The constructor binds those that are not inherited, and raises :class:`CannotListen`. It
    replaces the file of a Unix socket on which no process listens.
    """

    def __init__(self, settings: Settings, inherited: Inherited | None = None) -> None:
        #: The file of a Unix socket that this process has bound.
        self._path: Path | None = None
        #: Those for /metrics alone, if it has a separate port.
        self.metrics_sockets: list[socket.socket] = []
        self.is_inherited = inherited is not None
        if inherited is not None:
            self.sockets = inherited.sockets
        elif settings.uds is not None:
            self.sockets = [_listen_at(settings.uds)]
            self._path = settings.uds
        else:
            self.sockets = listen(settings.host, settings.port)
        if settings.metrics_port is not None:
            try:
                self.metrics_sockets = listen(settings.host, settings.metrics_port, " for metrics")
            except CannotListen:
                self.close()
                raise
        self.name = self._name(settings)

    def _name(self, settings: Settings) -> str:
        """How the log names the address."""
        if settings.uds is not None:
            name = f"unix socket {settings.uds}"
        else:
            scheme = "http" if settings.ssl_certfile is None else "https"
            # PORT may be 0.
            tcp = next(sock for sock in self.sockets if sock.family != socket.AF_UNIX)
            port = settings.port or tcp.getsockname()[1]
            name = url(scheme, settings.host, port)
        if self.metrics_sockets:
            name += f" (metrics on port {self.metrics_sockets[0].getsockname()[1]})"
        return name

    @property
    def is_reachable(self) -> bool:
        """Whether other machines may reach a socket."""
        return any(
            sock.family != socket.AF_UNIX and not is_loopback(sock.getsockname()[0])
            for sock in self.sockets
        )

    def turn_away(self) -> None:
        """Let no further connection in: those that wait become fewer until there are none.

        A client that comes later tries again after a second, and is refused once the sockets are
        closed, or served by a successor. The file of a Unix socket is removed. Inherited sockets
        stay open to new connections.
        """
        if self.is_inherited:
            return
        self._remove_file()
        for sock in (*self.sockets, *self.metrics_sockets):
            if sock.family != socket.AF_UNIX:
                _turn_away(sock)

    def close(self) -> None:
        """Remove the file of a Unix socket, then close the sockets.

        In this order: after the close, another service may have replaced the file.
        """
        self._remove_file()
        for sock in (*self.sockets, *self.metrics_sockets):
            sock.close()

    def _remove_file(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

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


def is_loopback(address: str) -> bool:
    """Whether an IP address is reached from this machine only."""
    return ip_address(address.partition("%")[0]).is_loopback


def url(scheme: str, host: str, port: int) -> str:
    """The URL of a host, which may be an IPv6 address."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def notify(state: str) -> None:
    """Send systemd a state such as ``READY=1`` (sd_notify(3)), if it has asked for notices."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A name of the abstract namespace is written with @.
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),  # the service does not depend on who has asked
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
    ):
        sock.sendto(state.encode(), address)


def _bind_host(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host; localhost may have two."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address[0]) for family, _, _, _, address in found))
    # A single IPv6 address may be "::", which means all addresses of both families.
    dual = len(addresses) == 1 and addresses[0][0] == socket.AF_INET6
    socks: list[socket.socket] = []
    for family, address in addresses:
        try:
            sock = socket.create_server(
                (str(address), port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
            )
        except OSError as error:
            # In a container, localhost may have an address of a family that is not available.
            is_missing = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
            if not is_missing or (not socks and address == addresses[-1][1]):
                for sock in socks:
                    sock.close()
                raise
        else:
            socks.append(sock)
            port = sock.getsockname()[1]  # with port 0, the same free port for all
    return socks


def _turn_away(sock: socket.socket) -> None:
    """Have the kernel drop segments that would begin a connection."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_NO_SYN, len(_NO_SYN))
        filtered = struct.pack("HP", len(_NO_SYN) // 8, ctypes.addressof(program))
        with contextlib.suppress(OSError):  # some sandboxes have no filters
            sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filtered)
            return
    # The next best: a single connection may wait.
    sock.listen(0)


def _listen_at(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        _remove_stale(path)
        sock.bind(str(path))
        # The permissions of the folder control who may connect.
        path.chmod(0o666)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CannotListen(f"cannot listen on {path}: {_reason(error)}") from None
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


def _listening(number: int) -> socket.socket:
    try:
        os.set_inheritable(number, False)
        sock = socket.socket(fileno=number)
    except OSError as error:
        raise CannotListen(f"file descriptor {number} of LISTEN_FDS: {_reason(error)}") from None
    is_stream = sock.family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    is_stream = is_stream and sock.type == socket.SOCK_STREAM
    if not is_stream or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise CannotListen(
            f"file descriptor {number} of LISTEN_FDS is not a listening stream socket; "
            "a systemd unit needs ListenStream= and Accept=no"
        )
    return sock
