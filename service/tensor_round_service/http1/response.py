"""Responses: status, fields, a body in parts, and the serialized head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Protocol

from .head import Header

#: Has no Content-Length: it would be the length of what is not sent (RFC 9110, section 8.6).
NOT_MODIFIED = 304
Parts = Sequence[bytes | memoryview]


class MemoryOwner(Protocol):
    """Owns the memory of a response's parts."""

    def end(self, reusable: bool) -> None:
        """Release the memory; ``reusable`` says that neither a thread nor the kernel uses it."""


def field_lines(fields: Sequence[Header]) -> bytes:
    """Serialize fields."""
    return b"".join([b"%b: %b\r\n" % field for field in fields])


class FixedFields:
    """Fields that many responses share, serialized once."""

    __slots__ = ("fields", "lines")

    def __init__(self, *fields: Header) -> None:
        self.fields = fields
        self.lines = field_lines(fields)


class Response:
    """A complete response. Its parts are written in order, without a copy where they are large.

    ``fixed`` are fields that many responses share, such as Content-Type; ``headers`` are this
    response's own. The sender adds Content-Length, and calls ``owner.end`` afterwards. ``code`` is
    the code of a refusal.
    """

    __slots__ = ("code", "fixed", "headers", "owner", "parts", "status")

    def __init__(
        self, status: int, fixed: FixedFields, parts: Parts, headers: list[Header]
    ) -> None:
        self.status = status
        self.fixed = fixed
        self.parts = parts
        self.headers = headers
        self.owner: MemoryOwner | None = None
        self.code = ""


def field_name(name: str) -> bytes:
    """A field name in lower case, as in ASGI."""
    return name.lower().encode("ascii")


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
