"""The native face's headers: their names, and what their values mean. No I/O."""

from __future__ import annotations

import base64
import binascii
import json
import re

from ..errors import DigestMismatch
from ..layout import Layout

OPERATOR_DESCRIPTOR = b"operator-descriptor"
OUTPUT_DESCRIPTOR = b"output-descriptor"
EXECUTION_BACKEND = b"execution-backend"
SERVER_TIMING = b"server-timing"
REQUEST_ID = b"x-request-id"
CONTENT_DIGEST = b"content-digest"
WANT_CONTENT_DIGEST = b"want-content-digest"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:@/+=-]{1,128}")
_SHA256 = re.compile(rb"(?:^|,)\s*sha-256\s*=\s*([^,]*)", re.IGNORECASE)


def media_type(content_type: bytes | None) -> bytes:
    """The media type of a Content-Type, in lower case and without parameters; empty if absent."""
    return (content_type or b"").split(b";", 1)[0].strip().lower()


def is_sane_request_id(value: bytes) -> bool:
    """Whether a caller's X-Request-ID can be repeated in headers and logs as it is."""
    return _REQUEST_ID.fullmatch(value) is not None


def sha256_field(digest: bytes) -> bytes:
    """The Content-Digest (RFC 9530) of a SHA-256."""
    return b"sha-256=:" + base64.b64encode(digest) + b":"


def sha256_of(field: bytes | None) -> bytes | None:
    """The SHA-256 in a Content-Digest; None if there is none; :class:`DigestMismatch` if malformed.

    Other algorithms are passed over, as RFC 9530 asks.
    """
    found = _SHA256.search(field or b"")
    if found is None:
        return None
    value = found[1].strip()
    try:
        digest = base64.b64decode(value[1:-1], validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != 32 or value[:1] != b":" or value[-1:] != b":":
        raise DigestMismatch("Content-Digest must have the form sha-256=:<base64 of 32 bytes>:")
    return digest


def wants_sha256(field: bytes | None) -> bool:
    """Whether a Want-Content-Digest asks for a SHA-256: any preference but 0."""
    found = _SHA256.search(field or b"")
    return found is not None and found[1].strip() != b"0"


def output_descriptor(layout: Layout) -> bytes:
    """The Output-Descriptor of an answer."""
    return json.dumps(layout.describe(), separators=(",", ":")).encode()
