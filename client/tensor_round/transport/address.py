"""Addresses: ``http://``, ``https://``, ``unix://`` and ``ray://`` URLs, and ``local:``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from ..errors import InvalidArgument

#: The scheme of the engine in this process.
LOCAL = "local"
#: The scheme of a fleet's directory.
FLEET = "ray"
_PORTS = {"http": 80, "https": 443}
#: The characters of a path and a host name that are sent as they are.
_PLAIN = re.compile(r"[!-~]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service or of a fleet's directory.

    With ``uds``, the path of a Unix socket, host and port are unused.

    ``prefix`` is put before every path, for a service below ``/numerics``, say.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""
    uds: str | None = None

    @classmethod
    def parse_all(cls, urls: str) -> tuple[Address, ...]:
        """The addresses in a URL, or in several, separated by commas.

        Raises :class:`InvalidArgument`.
        """
        parts = urls.split(",")
        if len(parts) == 1:
            return (cls.parse(urls),)
        found: list[Address] = []
        for number, part in enumerate(parts, 1):
            try:
                address = cls.parse(part.strip())
                if address.scheme in (LOCAL, FLEET):
                    raise InvalidArgument(f"{address.scheme}: must be the only URL")
                if address in found:
                    raise InvalidArgument("the URL is there before")
            except InvalidArgument as error:
                where = f"URL {number} of {len(parts)}"
                raise InvalidArgument(f"{where} (commas separate them): {error.detail}") from None
            found.append(address)
        return tuple(found)

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
        if parts.scheme not in (*_PORTS, FLEET) or not parts.hostname:
            raise InvalidArgument(
                "the URL must be http://host, https://host, unix:///path, ray://host:port or local:"
            )
        if parts.query or parts.fragment or parts.username is not None:
            raise InvalidArgument("the URL must have no query, no fragment and no user name")
        if not (_PLAIN.fullmatch(parts.path) and _PLAIN.fullmatch(parts.hostname)):
            raise InvalidArgument("the URL must be plain ASCII")
        if port is None:
            if parts.scheme == FLEET:
                raise InvalidArgument("a ray URL must have a port")
            port = _PORTS[parts.scheme]
        return cls(
            parts.scheme,
            parts.hostname,
            port,
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
