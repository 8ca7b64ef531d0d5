"""Fields that protect browsers and caches.

Browsers must not guess the type of a response, must not store any response except the files of a
page, and must run only the scripts of this host.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from .response import field_name

#: The server adds these to every response, refusals of the connection included.
SERVER_HEADERS = [("X-Content-Type-Options", "nosniff")]
SERVER_FIELDS = [(field_name(name), value.encode()) for name, value in SERVER_HEADERS]

CACHE_CONTROL = field_name("Cache-Control")
NO_STORE = (CACHE_CONTROL, b"no-store")


def page_headers(inline_scripts: Iterable[str] = ()) -> dict[str, str]:
    """The headers of an HTML page with scripts of this host and the given inline scripts."""
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
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
