"""Addresses: URLs with http, https or unix, and ``local:``.

Host names are resolved in a separate thread: ``getaddrinfo`` has no timeout. No call waits for
the thread beyond its deadline, and the process can exit while the thread still runs.
"""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ..contract.errors import InvalidArgument

#: The scheme of the engine in this process.
LOCAL = "local"
_PORTS = {"http": 80, "https": 443}
#: The characters of a path and a host name that are sent as they are.
_PLAIN = re.compile(r"[!-~]*", re.ASCII)
#: A host, perhaps with a port and a path: a URL without its scheme.
_HOST = re.compile(r"(?!\w+:[^0-9])[\w.-]+(:[0-9]{1,5})?(/[!-~]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Of a service; with ``uds``, a Unix socket's path, host and port are unused.

    ``prefix`` is put before every path, for a service below ``/numerics``, say.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""
    uds: str | None = None

    @classmethod
    def parse(cls, url: str) -> Address:
        """The address in a URL; raises :class:`InvalidArgument`."""
        if "," in url or url.startswith(("ray:", "rays:")):
            raise InvalidArgument(
                "a client takes the URL of one service: put a balancer in front of several "
                "(docs/deploy.md)"
            )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidArgument(f"the URL is malformed: {error}") from None
        if parts.scheme == LOCAL:
            if url.lower() != f"{LOCAL}:":
                raise InvalidArgument("the URL must be local: and nothing else")
            return cls(LOCAL, "", 0)
        if parts.scheme == "unix":
            if not parts.path or parts.netloc:
                raise InvalidArgument("a unix URL must be unix:// and an absolute path")
            if not hasattr(socket, "AF_UNIX"):
                raise InvalidArgument("this Python has no Unix sockets: use http://host:port")
            return cls("http", "localhost", 80, uds=unquote(parts.path))
        if parts.scheme not in _PORTS or not parts.hostname:
            meant = f'did you mean "http://{url}"? A' if _HOST.fullmatch(url) else "a"
            raise InvalidArgument(
                f"the URL has no known scheme; {meant}ccepted: http://host, https://host, "
                "unix:///path, local:"
            )
        if parts.query or parts.fragment or parts.username is not None:
            raise InvalidArgument("the URL must have no query, no fragment and no user name")
        if not (_PLAIN.fullmatch(parts.path) and _PLAIN.fullmatch(parts.hostname)):
            raise InvalidArgument("the URL must be plain ASCII")
        return cls(
            parts.scheme,
            parts.hostname,
            _PORTS[parts.scheme] if port is None else port,
            parts.path.rstrip("/"),
        )

    @property
    def host_header(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as a URL without a path."""
        return f"{self.scheme}://{self.host_header}"

    @property
    def url(self) -> str:
        """The URL."""
        return f"unix://{quote(self.uds)}" if self.uds else self.origin + self.prefix


#: Address family and address, as :mod:`socket` defines them.
SocketAddress = tuple[int, Any]


def resolve_host(address: Address) -> Future[list[SocketAddress]]:
    """At least one address of a host; OSError, or ValueError for an invalid host name."""
    found: Future[list[SocketAddress]] = Future()
    found.set_running_or_notify_cancel()

    def resolve() -> None:
        try:
            found.set_result(_resolved(address))
        except Exception as error:  # any: the future raises it in the waiting thread
            found.set_exception(error)

    try:
        # An IP address needs no name server, and no thread.
        found.set_result(_resolved(address, socket.AI_NUMERICHOST))
    except (OSError, ValueError):
        try:
            threading.Thread(target=resolve, name="tensor-round-resolver", daemon=True).start()
        except RuntimeError as error:
            found.set_exception(OSError(f"no thread for name resolution can be started: {error}"))
    return found


def _resolved(address: Address, flags: int = 0) -> list[SocketAddress]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]
