"""What the OpenAPI document says of keys, where the service asks for them."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key; not beside the other header.",
    },
}


def add_keys(document: dict[str, Any], open_paths: Set[str]) -> None:
    """Write a key, in either header, into every operation but those of the open paths."""
    document["components"]["securitySchemes"] = _SCHEMES
    document["security"] = [{name: []} for name in _SCHEMES]
    for path in open_paths & document["paths"].keys():
        for operation in document["paths"][path].values():
            operation["security"] = []
