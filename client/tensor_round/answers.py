"""The refusal that an answer may stand for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from . import errors
from .errors import MalformedJSON, RequestRefused
from .wire import native, strictjson

#: Objects and arrays in one another in a document of the service's.
MAX_DOCUMENT_DEPTH = 32
#: Longer hints are a service's mistake, or a proxy's; a call's deadline is shorter anyway.
_MAX_RETRY_AFTER = 86_400.0


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RequestRefused:
    """The error that an answer other than 200 stands for."""
    document: dict[str, Any] = {}
    if native.media_type(headers.get("content-type", "")) == native.PROBLEM_JSON:
        try:
            value = strictjson.loads(body, max_depth=MAX_DOCUMENT_DEPTH)
            document = value if isinstance(value, dict) else {}
        except MalformedJSON:
            pass  # a proxy's, or cut short: the status still says what it says
    elif native.media_type(headers.get("content-type", "")) == native.JSON:
        document = _protocol_error(body)
    retry_after = parse_retry_after(headers.get("retry-after"))
    error = errors.from_problem(document, status=status, retry_after=retry_after)
    if isinstance(error, errors.MethodNotAllowed):
        error.allow = headers.get("allow", "")
    error.request_id = headers.get("x-request-id")
    return error


def _protocol_error(body: bytes) -> dict[str, Any]:
    """The Open Inference Protocol's error, as much of a problem document as it is."""
    try:
        value = strictjson.loads(body, max_depth=1)
    except MalformedJSON:
        return {}
    return {"detail": value.get("error")} if isinstance(value, dict) else {}


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from either form of Retry-After (RFC 9110, 10.2.3); None for neither."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:20]), _MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return min(max(0.0, until.timestamp() - time.time()), _MAX_RETRY_AFTER)
