"""Which host a request may be for, and which page it may come from.

A page of another site reaches a service on the same machine by a name of its own, which it
lets stand for 127.0.0.1 (DNS rebinding): such a name is refused. What a page may send without
asking is refused where it would change something.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from tensor_round.echo import shown
from tensor_round.errors import ForeignOrigin, MisdirectedHost

from .http1.head import RequestHead
from .settings import Settings

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.%\w-]+\]|[^:\[\]]*)(?::\d*)?")
_ORIGIN = b"origin"


class HostCheck:
    """The hosts that a service is for: IP addresses, localhost, and names that are allowed.

    ``names`` None allows every name.
    """

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names
        # Of all that a caller can send, only what is allowed is remembered.
        self._check = lru_cache(maxsize=64)(self._check_anew)

    @classmethod
    def of(cls, settings: Settings) -> HostCheck:
        """The check that settings ask for: without names, a loopback address allows none."""
        if settings.allowed_hosts is not None:
            names = (name.strip().lower() for name in settings.allowed_hosts.split(","))
            return cls(frozenset(filter(None, names)))
        is_local = settings.uds is None and _is_loopback(settings.host)
        return cls(frozenset() if is_local else None)

    def check(self, head: RequestHead) -> None:
        """Raise :class:`MisdirectedHost` for a request that is for another host."""
        if self._names is not None:
            self._check(head.authority)

    def _check_anew(self, authority: bytes | None) -> None:
        if authority is None:
            return
        text = authority.decode("latin-1")
        match = _AUTHORITY.fullmatch(text)
        host = "" if match is None else match[1].lower().rstrip(".")
        assert self._names is not None
        if not (host == "localhost" or _is_address(host) or host in self._names):
            raise MisdirectedHost(
                f"this service is not for the host {shown(text)}; its ALLOWED_HOSTS may name it"
            )


def check_origin(head: RequestHead) -> None:
    """Raise :class:`ForeignOrigin` for a request that a page of another origin sent."""
    origin = head.values.get(_ORIGIN)
    if origin is not None and origin.partition(b"://")[2] != (head.authority or b""):
        raise ForeignOrigin("a page of another origin may not change anything here")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
