"""The paths that need no API key, exactly as written."""

from __future__ import annotations

from . import docs, page

#: Health, and the pages that say how to call the service. Every other path needs a key, whether
#: there is something behind it or not.
OPEN_PATHS = frozenset(
    {
        *("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"),
        *("/", "/openapi.json", *docs.PATHS, *page.PATHS),
    }
)
