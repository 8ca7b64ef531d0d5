"""Responses: a status, fields and a body in parts, and their head as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Protocol

from .head import Header

Parts = Sequence[bytes | memoryview]


class Holder(Protocol):
    """Has the memory of a response's parts."""

    def end(self, settled: bool) -> None:
        """Let go of it; ``settled`` vouches that nobody reads it any more."""


def field_lines(fields: Sequence[Header]) -> bytes:
    """Fields as lines of a head."""
    return b"".join([b"%b: %b\r\n" % field for field in fields])


class FixedFields:
    """Fields that many responses share: made into lines of a head once."""

    __slots__ = ("fields", "lines")

    def __init__(self, *fields: Header) -> None:
        self.fields = fields
        self.lines = field_lines(fields)


class Response:
    """A whole response. Its parts are sent one after another, from where they lie in memory.

    ``fixed`` are fields that many responses share, the body's type among them; ``headers`` are
    this response's own. Whoever sends it adds Content-Length, and ends its ``holder``. ``code`` is
    that of a refusal.
    """

    __slots__ = ("code", "fixed", "headers", "holder", "parts", "status")

    def __init__(
        self, status: int, fixed: FixedFields, parts: Parts, headers: list[Header]
    ) -> None:
        self.status = status
        self.fixed = fixed
        self.parts = parts
        self.headers = headers
        self.holder: Holder | None = None
        self.code = ""


def field_name(name: str) -> bytes:
    """A field's name as ASGI has it, in lower case."""
    return name.lower().encode("ascii")


def head_bytes(response: Response, nbytes: int, common: bytes, *, close: bool) -> bytes:
    """The head of a response with a body of so many bytes, as it goes over the wire.

    ``common`` are the lines that all responses of a server have.
    """
    lines = [_status_line(response.status), response.fixed.lines, common]
    for name, value in response.headers:
        lines += (name, b": ", value, b"\r\n")
    end = b"connection: close\r\n\r\n" if close else b"\r\n"
    lines.append(b"content-length: %d\r\n%b" % (nbytes, end))
    return b"".join(lines)


@cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())
