"""Hosts that requests may be for, and origins whose pages may send requests or read responses.

A web page can reach a service on the visitor's machine if the page's host name resolves to
127.0.0.1 (DNS rebinding); the host check refuses such names. A page can also send simple requests
to any host; the origin check refuses those that would change something.

CORS: a browser gives a page the response of another origin only if the response names the page's
origin. Before a request that is not simple, it sends a preflight request (Fetch, section 3.3).
Other clients ignore these fields. CORS does not replace authentication: API keys are checked as
usual.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Set
from functools import lru_cache

from tensor_round.contract.errors import ForeignOrigin, InvalidHost, MisdirectedHost
from tensor_round.contract.quoting import shown
from tensor_round.contract.wire import http_fields

from ..net.head import Head, Header, host_of, is_address
from ..net.response import FixedFields, Response, field_name
from ..settings import Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ORIGIN = field_name("Origin")
_REQUEST_METHOD = field_name("Access-Control-Request-Method")
_ALLOW_ORIGIN = field_name("Access-Control-Allow-Origin")

#: Fields that a page may send to the core, besides those that every page may send.
REQUEST_FIELDS = (
    http_fields.OPERATOR_DESCRIPTOR,
    http_fields.CONTENT_TYPE,
    http_fields.CONTENT_ENCODING,
    http_fields.CONTENT_DIGEST,
    http_fields.WANT_CONTENT_DIGEST,
    "Authorization",
    http_fields.API_KEY,
    http_fields.REQUEST_ID,
    "traceparent",
    "tracestate",
)
#: Fields of the core's responses that a page may read, besides those that every page may read.
RESPONSE_FIELDS = (
    http_fields.OUTPUT_DESCRIPTOR,
    http_fields.EXECUTION_BACKEND,
    http_fields.SERVER_TIMING,
    http_fields.REQUEST_ID,
    http_fields.CONTENT_DIGEST,
    http_fields.CONTENT_ENCODING,
    http_fields.RETRY_AFTER,
    "Accept",
    "Accept-Encoding",
    "Allow",
    "WWW-Authenticate",
)
#: Seconds for which a browser may cache a preflight response: Chromium's maximum.
_MAX_AGE = b"7200"

#: Caches must not serve the response for one origin to another.
_VARY: Header = (b"vary", b"Origin")
#: Raises :class:`InvalidHost` for no host, and :class:`MisdirectedHost` for another than allowed.
HostCheck = Callable[[bytes | None], None]


def host_check(settings: Settings) -> HostCheck:
    """The check for these settings.

    IP addresses, localhost and the names in ALLOWED_HOSTS are allowed. Without ALLOWED_HOSTS, a
    service on a loopback address allows no further names, and any other service allows all.
    """
    if settings.allowed_hosts is None:
        is_local = settings.uds is None and _is_loopback(settings.host)
        return allow_hosts(frozenset() if is_local else None)
    names = (name.strip().lower() for name in settings.allowed_hosts.split(","))
    return allow_hosts(frozenset(filter(None, names)))


def allow_hosts(names: frozenset[str] | None) -> HostCheck:
    """The check that allows these names, IP addresses and localhost; without names all hosts."""

    @lru_cache(maxsize=64)  # refusals are not cached
    def check(authority: bytes | None) -> None:
        text = "localhost" if authority is None else authority.decode("latin-1")
        host = host_of(text)
        if host is None:
            raise InvalidHost(
                "Host: must be a host name or an IP address, and a port if needed, as in "
                f"tensors.example:8000, got {shown(text)}"
            )
        if not (names is None or host == "localhost" or is_address(host) or host in names):
            raise MisdirectedHost(
                f"this service does not serve the host {shown(text)}; add it to ALLOWED_HOSTS"
            )

    return check


def check_origin(head: Head, listed: Set[bytes]) -> None:
    """Raise :class:`ForeignOrigin` for an unsafe request of a page of another origin.

    The ``listed`` origins are allowed.
    """
    origin = None if head.method in SAFE_METHODS else head.values.get(_ORIGIN)
    if origin is None or origin in listed:
        return
    page = origin.partition(b"://")[2]
    # The origin "null" has no host, nor has every request: that must not count as a match.
    if not page or page != head.authority:
        raise ForeignOrigin("a page of another origin may not change anything here")


class Cors:
    """Adds the CORS fields to responses for pages of these origins."""

    def __init__(self, origins: frozenset[bytes], fields: Iterable[str] = ()) -> None:
        self.origins = origins
        sent, read = (*REQUEST_FIELDS, *fields), (*RESPONSE_FIELDS, *fields)
        self._exposed: Header = (b"access-control-expose-headers", ", ".join(read).encode())
        self._preflight = FixedFields(
            (b"access-control-allow-methods", b"GET, HEAD, POST"),
            (b"access-control-allow-headers", ", ".join(sent).encode()),
            (b"access-control-max-age", _MAX_AGE),
        )

    @classmethod
    def of(cls, settings: Settings, fields: Iterable[str] = ()) -> Cors | None:
        """The instance for the setting CORS_ORIGINS; None if it is not set.

        Pages may send and read these ``fields``, too.
        """
        origins = frozenset(origin.encode() for origin in settings.listed_origins)
        return cls(origins, fields) if origins else None

    def preflight(self, head: Head) -> Response | None:
        """The response to a preflight request of a listed origin; None for other requests."""
        if _REQUEST_METHOD not in head.values or head.values.get(_ORIGIN) not in self.origins:
            return None
        return Response(200, self._preflight, (), [])

    def fields(self, head: Head | None) -> list[Header]:
        """The CORS fields of a response; ``head`` is None if it could not be parsed."""
        origin = None if head is None else head.values.get(_ORIGIN)
        if origin is None or origin not in self.origins:
            return [_VARY]
        return [_VARY, (_ALLOW_ORIGIN, origin), self._exposed]


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
