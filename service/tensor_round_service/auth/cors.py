"""CORS: the origins whose pages may read responses and request changes.

A browser gives a page the response of another origin only if the response names the page's origin.
Before a request that is not simple, it sends a preflight request (Fetch, section 3.3). Other
clients ignore these fields. CORS does not replace authentication: API keys are checked as usual.
"""

from __future__ import annotations

from tensor_round.contract.wire import native

from ..codec import oip
from ..http1.head import Header, RequestHead
from ..http1.response import FixedFields, Response, field_name
from ..settings import Settings

ORIGIN = field_name("Origin")
_REQUEST_METHOD = field_name("Access-Control-Request-Method")
_ALLOW_ORIGIN = field_name("Access-Control-Allow-Origin")

#: Fields that a page may send, besides those that every page may send.
REQUEST_FIELDS = (
    native.OPERATOR_DESCRIPTOR,
    native.CONTENT_TYPE,
    native.CONTENT_ENCODING,
    native.CONTENT_DIGEST,
    native.WANT_CONTENT_DIGEST,
    oip.HEADER_LENGTH,
    "Authorization",
    native.API_KEY,
    native.REQUEST_ID,
    *("traceparent", "tracestate"),
)
#: Fields that a page may read, besides those that every page may read.
RESPONSE_FIELDS = (
    native.OUTPUT_DESCRIPTOR,
    native.EXECUTION_BACKEND,
    native.SERVER_TIMING,
    native.REQUEST_ID,
    native.CONTENT_DIGEST,
    native.CONTENT_ENCODING,
    oip.HEADER_LENGTH,
    native.RETRY_AFTER,
    *("Allow", "WWW-Authenticate"),
)
#: Seconds for which a browser may cache a preflight response: Chromium's maximum.
_MAX_AGE = b"7200"

#: Caches must not serve the response for one origin to another.
_VARY: Header = (b"vary", b"Origin")
_EXPOSED: Header = (b"access-control-expose-headers", ", ".join(RESPONSE_FIELDS).encode())
_PREFLIGHT = FixedFields(
    (b"access-control-allow-methods", b"GET, HEAD, POST"),
    (b"access-control-allow-headers", ", ".join(REQUEST_FIELDS).encode()),
    (b"access-control-max-age", _MAX_AGE),
)


class Cors:
    """Adds the CORS fields to responses for pages of these origins."""

    def __init__(self, origins: frozenset[bytes]) -> None:
        self.origins = origins

    @classmethod
    def of(cls, settings: Settings) -> Cors | None:
        """The instance for the setting CORS_ORIGINS; None if it is not set."""
        origins = frozenset(origin.encode() for origin in settings.listed_origins)
        return cls(origins) if origins else None

    def preflight(self, head: RequestHead) -> Response | None:
        """The response to a preflight request of a listed origin; None for other requests."""
        if _REQUEST_METHOD not in head.values or head.values.get(ORIGIN) not in self.origins:
            return None
        return Response(200, _PREFLIGHT, (), [])

    def fields(self, head: RequestHead | None) -> list[Header]:
        """The CORS fields of a response; ``head`` is None if it could not be parsed."""
        origin = None if head is None else head.values.get(ORIGIN)
        if origin is None or origin not in self.origins:
            return [_VARY]
        return [_VARY, (_ALLOW_ORIGIN, origin), _EXPOSED]
