"""The security schemes of the OpenAPI document, for a service with API keys."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key; not together with the other header.",
    },
}


def add_keys(document: dict[str, Any], open_paths: Set[str]) -> None:
    """Require a key, in either header, for all operations except those of the open paths."""
    document["components"]["securitySchemes"] = _SCHEMES
    document["security"] = [{name: []} for name in _SCHEMES]
    for path in open_paths & document["paths"].keys():
        for operation in document["paths"][path].values():
            operation["security"] = []
