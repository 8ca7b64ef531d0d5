"""A service's address: ``http://``, ``https://`` and ``unix://`` URLs, and ``local:``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ..errors import InvalidArgument

#: The scheme of the engine in this process.
LOCAL = "local"
_PORTS = {"http": 80, "https": 443}
#: The characters of a path and a host name that are sent as they are.
_PLAIN = re.compile(r"[!-~]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service; with ``uds``, the path of a Unix socket, host and port are unused.

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
            return cls("http", "localhost", 80, uds=unquote(parts.path))
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidArgument(
                "the URL must be http://host, https://host, unix:///path or local:"
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
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as a URL without a path."""
        return f"{self.scheme}://{self.host_header}"
