"""What answers tell browsers and caches to leave alone.

Three rules: no answer is taken for another type than it says, none but a page's files
is stored, and a page runs only what came with it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, MutableMapping
from typing import Any

from starlette.types import ASGIApp

from .answers import Send, field_name
from .receive import Receive

#: On every answer, refusals of the server's own included: the server writes it.
SERVER_HEADERS = [("X-Content-Type-Options", "nosniff")]

_CACHE_CONTROL = field_name("Cache-Control")
NO_STORE = (_CACHE_CONTROL, b"no-store")


def page_headers(inline_scripts: Iterable[str] = ()) -> dict[str, str]:
    """The headers of an HTML page whose scripts are files of this host, or exactly these."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()) for s in inline_scripts]
    scripts = " ".join(["'self'", *(f"'sha256-{digest.decode()}'" for digest in hashes)])
    policy = {
        "default-src": "'none'",
        "script-src": scripts,
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{what} {whom}" for what, whom in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


class NoStoreMiddleware:
    """Pure ASGI: ``Cache-Control: no-store`` on every answer that says nothing of caches.

    Tensor requests go past it: what answers a POST is not stored unless it says so
    (RFC 9111, section 3).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on, and the header with its answer."""

        async def send_unstored(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if all(name != _CACHE_CONTROL for name, _ in headers):
                    headers.append(NO_STORE)
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_unstored)
