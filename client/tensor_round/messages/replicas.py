"""The directory of a fleet, ``GET /replicas``: the URLs of its replicas that serve now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ProtocolViolation

PATH = "/replicas"
#: The most replicas in one directory.
MAX_REPLICAS = 10_000


def read_replicas(document: Mapping[str, Any]) -> list[str]:
    """The URLs in ``{"replicas": [{"url": "http://10.0.0.5:8000"}, ...]}``; there may be none.

    Other members, of the document and of a replica, are ignored. Raises
    :class:`ProtocolViolation` for any other form.
    """
    replicas = document.get("replicas")
    if not isinstance(replicas, list):
        raise ProtocolViolation('the directory has no list "replicas"')
    if len(replicas) > MAX_REPLICAS:
        raise ProtocolViolation(f"the directory has more than {MAX_REPLICAS} replicas")
    return [_url(replica, position) for position, replica in enumerate(replicas)]


def _url(replica: object, position: int) -> str:
    url = replica.get("url") if isinstance(replica, dict) else None
    if not isinstance(url, str):
        raise ProtocolViolation(f'replicas.{position} of the directory has no "url"')
    return url
