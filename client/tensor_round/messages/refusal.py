"""The error that a response with another status than 200 stands for."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..contract import errors
from ..contract.errors import MalformedJSON, RequestRefused
from ..contract.quoting import shown
from ..contract.wire import native, strictjson

#: The deepest nesting of objects and arrays in a document of the service.
MAX_DOCUMENT_DEPTH = 32
#: Bytes of a problem document, also after decoding. The service lists at most 33 faults in one.
MAX_PROBLEM_BYTES = 64 << 10
#: JSON values in a problem document.
_MAX_PROBLEM_VALUES = 2048
#: Statuses that load balancers, gateways and authenticators in front of a service send.
_GATEWAY = frozenset({401, 403, 407, 408, 413, 414, 421, 425, 429, 431, 500, 502, 503, 504, 511})
#: The longest Retry-After that is believed, in seconds.
_MAX_RETRY_AFTER = 86_400.0


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RequestRefused:
    """The error that a response with another status than 200 stands for.

    At most :data:`MAX_PROBLEM_BYTES` of the body are read, before and after decoding.
    """
    kind = native.media_type(headers.get("content-type", ""))
    document: dict[str, Any] = {}
    if kind in (native.PROBLEM_JSON, native.JSON):
        document = _document(_decoded(body, headers.get("content-encoding", "identity")))
    if kind == native.JSON:  # an error of the Open Inference Protocol
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
    """The JSON object; an empty one if a proxy sent something else or the text was cut short."""
    try:
        value = strictjson.loads(text, max_depth=MAX_DOCUMENT_DEPTH, max_values=_MAX_PROBLEM_VALUES)
    except MalformedJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _decoded(body: bytes, coding: str) -> bytes:
    """The body without its coding, which was not asked for; empty if it cannot be decoded."""
    if coding == "identity":
        return body[:MAX_PROBLEM_BYTES]
    try:
        # 32 makes zlib detect the gzip or zlib header.
        return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(body, MAX_PROBLEM_BYTES)
    except zlib.error:
        return b""


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from either form of Retry-After (RFC 9110, 10.2.3); None if malformed."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:20]), _MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return min(max(0.0, until.timestamp() - time.time()), _MAX_RETRY_AFTER)
