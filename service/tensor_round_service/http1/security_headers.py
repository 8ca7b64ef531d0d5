"""What responses tell browsers and caches to leave alone.

Three rules: no response is taken for another type than it says, none but a page's files
is stored, and a page runs only what came with it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from .response import field_name

#: On every response, refusals of a connection's own included: the server writes it.
SERVER_HEADERS = [("X-Content-Type-Options", "nosniff")]
SERVER_FIELDS = [(field_name(name), value.encode()) for name, value in SERVER_HEADERS]

CACHE_CONTROL = field_name("Cache-Control")
NO_STORE = (CACHE_CONTROL, b"no-store")


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
