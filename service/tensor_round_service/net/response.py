"""Responses: status, fields, a body in parts, and the serialized head.

The fields protect browsers and caches: browsers must not guess the type of a response, must not
store any response except the files of a page, and must run only the scripts of this host.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
from collections.abc import Iterable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Protocol

from tensor_round.contract.wire import http_fields

from .bodies import Parts
from .head import Head, Header

#: Has no Content-Length: it would be the length of what is not sent (RFC 9110, section 8.6).
NOT_MODIFIED = 304
#: A new id is random bytes of the process and a counter: unique without a system call each.
_process = os.urandom(8).hex().encode()
_count = itertools.count()


def field_name(name: str) -> bytes:
    """A field name in lower case, as in ASGI."""
    return name.lower().encode("ascii")


REQUEST_ID = field_name(http_fields.REQUEST_ID)
_CONTENT_TYPE = field_name(http_fields.CONTENT_TYPE)
#: The server adds these to every response, refusals of the connection included.
SERVER_HEADERS = [("X-Content-Type-Options", "nosniff")]
SERVER_FIELDS = [(field_name(name), value.encode()) for name, value in SERVER_HEADERS]
CACHE_CONTROL = field_name("Cache-Control")
NO_STORE = (CACHE_CONTROL, b"no-store")


class MemoryOwner(Protocol):
    """Owns the memory of a response's parts."""

    def end(self, reusable: bool, is_sent: bool) -> None:
        """Release the memory; ``reusable`` says that neither a thread nor the kernel uses it.

        ``is_sent`` says that the whole response was sent.
        """


def field_lines(fields: Sequence[Header]) -> bytes:
    """Serialize fields."""
    return b"".join([b"%b: %b\r\n" % field for field in fields])


class FixedFields:
    """Fields that many responses share, serialized once."""

    __slots__ = ("fields", "lines")

    def __init__(self, *fields: Header) -> None:
        self.fields = fields
        self.lines = field_lines(fields)


def of_type(media_type: str, *others: Header) -> FixedFields:
    """The fields of a response with this Content-Type."""
    return FixedFields((_CONTENT_TYPE, media_type.encode()), *others)


class Response:
    """A complete response. Its parts are written in order, without a copy where they are large.

    ``fixed`` are fields that many responses share, such as Content-Type; ``headers`` are this
    response's own. The sender adds Content-Length, and calls ``owner.end`` afterwards. ``code`` is
    the code of a refusal. ``is_uncounted``: the sender counts it, since no job does.
    """

    __slots__ = ("code", "fixed", "headers", "is_uncounted", "owner", "parts", "status")

    def __init__(
        self, status: int, fixed: FixedFields, parts: Parts, headers: list[Header]
    ) -> None:
        self.status = status
        self.fixed = fixed
        self.parts = parts
        self.headers = headers
        self.owner: MemoryOwner | None = None
        self.code = ""
        self.is_uncounted = False


def head_bytes(response: Response, nbytes: int, common: bytes, *, close: bool) -> bytes:
    """Serialize the head of a response whose body has ``nbytes`` bytes.

    ``common`` are the serialized fields of all responses of a server.
    """
    lines = [_status_line(response.status), response.fixed.lines, common]
    for name, value in response.headers:
        lines += (name, b": ", value, b"\r\n")
    if response.status != NOT_MODIFIED:
        lines.append(b"content-length: %d\r\n" % nbytes)
    lines.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(lines)


@cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())


def request_id_field(head: Head) -> Header:
    """The field for the response to a request with this head."""
    own = head.values.get(REQUEST_ID)
    if own is not None:
        if http_fields.SANE_REQUEST_ID.fullmatch(own):
            return REQUEST_ID, own
        for name, value in head.fields:  # a repeated field: use its first valid line
            if name == REQUEST_ID and http_fields.SANE_REQUEST_ID.fullmatch(value):
                return REQUEST_ID, value
    return REQUEST_ID, b"%s-%x" % (_process, next(_count))


def page_headers(inline_scripts: Iterable[str] = ()) -> dict[str, str]:
    """The headers of an HTML page with scripts of this host and the given inline scripts."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()) for s in inline_scripts]
    scripts = " ".join(["'self'", *(f"'sha256-{digest.decode()}'" for digest in hashes)])
    policy = {
        "default-src": "'none'",
        "script-src": scripts,
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
