"""The paths that need no API key. They are compared exactly."""

from __future__ import annotations

from .pages import docs, home

#: Health and documentation. All other paths need a key, unknown paths too.
OPEN_PATHS = frozenset(
    {
        *("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"),
        *("/", "/openapi.json", *docs.PATHS, *home.FILE_PATHS),
    }
)
