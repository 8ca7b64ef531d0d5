"""CORS: which pages of other origins may read responses, and ask for changes.

Browsers give a page the response to its request to another origin only where the response names
the page's origin; what a plain form could not send they announce first, by a preflight request
(Fetch, section 3.3). No other client looks at these fields, and none of them admits anybody:
API keys are asked for as ever.
"""

from __future__ import annotations

from tensor_round.wire import native, oip

from ..http1.head import Header, RequestHead
from ..http1.response import FixedFields, Response, field_name
from ..settings import Settings

ORIGIN = field_name("Origin")
_REQUEST_METHOD = field_name("Access-Control-Request-Method")
_ALLOW_ORIGIN = field_name("Access-Control-Allow-Origin")

#: What a page may send beside the fields that every page may.
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
#: What it may read beside the fields that every page may.
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
#: Seconds for which a browser need not announce such a request again; Chromium's most.
_MAX_AGE = b"7200"

#: A cache may not give one origin's response to another.
_VARY: Header = (b"vary", b"Origin")
_EXPOSED: Header = (b"access-control-expose-headers", ", ".join(RESPONSE_FIELDS).encode())
_PREFLIGHT = FixedFields(
    (b"access-control-allow-methods", b"GET, HEAD, POST"),
    (b"access-control-allow-headers", ", ".join(REQUEST_FIELDS).encode()),
    (b"access-control-max-age", _MAX_AGE),
)


class Cors:
    """Responses as pages of these origins need them."""

    def __init__(self, origins: frozenset[bytes]) -> None:
        self.origins = origins

    @classmethod
    def of(cls, settings: Settings) -> Cors | None:
        """What the setting CORS_ORIGINS asks for; None if it is not set."""
        origins = frozenset(origin.encode() for origin in settings.listed_origins)
        return cls(origins) if origins else None

    def preflight(self, head: RequestHead) -> Response | None:
        """The response to an OPTIONS that is a preflight request of a listed origin; else None."""
        if _REQUEST_METHOD not in head.values or head.values.get(ORIGIN) not in self.origins:
            return None
        return Response(200, _PREFLIGHT, (), [])

    def fields(self, head: RequestHead | None) -> list[Header]:
        """The fields of the response to a request; its head may not have become known."""
        origin = None if head is None else head.values.get(ORIGIN)
        if origin is None or origin not in self.origins:
            return [_VARY]
        return [_VARY, (_ALLOW_ORIGIN, origin), _EXPOSED]
