"""W3C Trace Context: the ``traceparent`` of a request, for logs and problem documents."""

from __future__ import annotations

import re

from .head import RequestHead

TRACEPARENT = b"traceparent"
_LAWFUL = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent_of(head: RequestHead | None) -> str | None:
    """The request's ``traceparent``; None if it is missing or invalid."""
    value = None if head is None else head.values.get(TRACEPARENT)
    return value.decode() if value is not None and _LAWFUL.fullmatch(value) else None
