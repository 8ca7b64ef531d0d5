"""The refusal that an answer may stand for."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from .. import errors
from ..errors import MalformedJSON, RequestRefused
from ..quoting import shown
from ..wire import native, strictjson

#: Objects and arrays in one another in a document of the service's.
MAX_DOCUMENT_DEPTH = 32
#: Of a problem document, and of what it decodes to: it lists 33 faults at most.
MAX_PROBLEM_BYTES = 64 << 10
#: Values in it.
_MAX_PROBLEM_VALUES = 2048
#: Statuses that come from what stands before a service: balancers, gateways, authenticators.
_GATEWAY = frozenset({401, 403, 407, 408, 413, 414, 421, 425, 429, 431, 500, 502, 503, 504, 511})
#: Longer hints are a service's mistake, or a proxy's; a call's deadline is shorter anyway.
_MAX_RETRY_AFTER = 86_400.0


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RequestRefused:
    """The error that an answer other than 200 stands for.

    No more than :data:`MAX_PROBLEM_BYTES` of the body are looked at, or made by decoding it.
    """
    kind = native.media_type(headers.get("content-type", ""))
    document: dict[str, Any] = {}
    if kind in (native.PROBLEM_JSON, native.JSON):
        document = _document(_decoded(body, headers.get("content-encoding", "identity")))
    if kind == native.JSON:  # the Open Inference Protocol's
        document = {"detail": document.get("error")}
    retry_after = parse_retry_after(headers.get("retry-after"))
    error = errors.from_problem(document, status=status, retry_after=retry_after)
    if isinstance(error, errors.MethodNotAllowed):
        error.allow = headers.get("allow", "")
    error.request_id = headers.get("x-request-id")
    if not (error.code or isinstance(document.get("detail"), str) or status in _GATEWAY):
        error.is_foreign = True
        if location := headers.get("location"):
            error.restate(f"{error.detail}, to {shown(location)}")
    return error


def _document(text: bytes) -> dict[str, Any]:
    """The JSON object, or an empty one: a proxy's, or cut short; the status still says much."""
    try:
        value = strictjson.loads(text, max_depth=MAX_DOCUMENT_DEPTH, max_values=_MAX_PROBLEM_VALUES)
    except MalformedJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _decoded(body: bytes, coding: str) -> bytes:
    """The content of a body, which no one asked to be encoded; empty where it cannot be told."""
    if coding == "identity":
        return body[:MAX_PROBLEM_BYTES]
    try:
        # By 32 and more it is gzip or zlib, as the first bytes say.
        return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(body, MAX_PROBLEM_BYTES)
    except zlib.error:
        return b""


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
