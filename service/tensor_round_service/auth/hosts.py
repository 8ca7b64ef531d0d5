"""Checks of the requested host, and of the origin of web pages.

A web page can reach a service on the visitor's machine if the page's host name resolves to
127.0.0.1 (DNS rebinding); the host check refuses such names. A page can also send simple requests
to any host; the origin check refuses those that would change something.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Set
from functools import lru_cache

from tensor_round.contract.errors import ForeignOrigin, MisdirectedHost
from tensor_round.contract.quoting import shown

from ..http1.head import RequestHead
from ..settings import Settings

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.%\w-]+\]|[^:\[\]]*)(?::\d*)?")
_ORIGIN = b"origin"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


#: Raises :class:`MisdirectedHost` for an authority of another host.
HostCheck = Callable[[bytes | None], None]


def host_check(settings: Settings) -> HostCheck | None:
    """The check for these settings; None if all hosts are allowed.

    IP addresses, localhost and the names in ALLOWED_HOSTS are allowed. Without ALLOWED_HOSTS, a
    service on a loopback address allows no further names, and any other service allows all.
    """
    if settings.allowed_hosts is None:
        is_local = settings.uds is None and _is_loopback(settings.host)
        return allow_hosts(frozenset()) if is_local else None
    names = (name.strip().lower() for name in settings.allowed_hosts.split(","))
    return allow_hosts(frozenset(filter(None, names)))


def allow_hosts(names: frozenset[str]) -> HostCheck:
    """The check that allows these names, IP addresses and localhost."""

    @lru_cache(maxsize=64)  # refusals are not cached
    def check(authority: bytes | None) -> None:
        text = "localhost" if authority is None else authority.decode("latin-1")
        match = _AUTHORITY.fullmatch(text)
        host = "" if match is None else match[1].lower().rstrip(".")
        if not (host == "localhost" or _is_address(host) or host in names):
            raise MisdirectedHost(
                f"this service does not serve the host {shown(text)}; ALLOWED_HOSTS can allow it"
            )

    return check


def check_origin(head: RequestHead, listed: Set[bytes] = frozenset()) -> None:
    """Raise :class:`ForeignOrigin` for an unsafe request of a page of another origin.

    The ``listed`` origins are allowed.
    """
    origin = None if head.method in _SAFE_METHODS else head.values.get(_ORIGIN)
    if origin is None or origin in listed:
        return
    page = origin.partition(b"://")[2]
    # The origin "null" has no host, nor has every request: that must not count as a match.
    if not page or page != head.authority:
        raise ForeignOrigin("a page of another origin may not change anything here")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
