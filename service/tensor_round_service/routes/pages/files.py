"""The files of the pages: read, hashed and compressed once, and shared by all responses.

A response refers to the memory of its file, so that callers who do not read take none of their own.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

from fastapi import Request, Response

from tensor_round.contract.errors import NotFound

from ...http1.content import IDENTITY, preferred_coding

#: The types that pages have, by suffix; no other file is served.
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_GZIP = "gzip"
#: ``wbits`` of zlib that selects the gzip format.
_GZIP_WINDOW = 31
#: zlib's default. Level 9 saves 1 % of Swagger UI, and takes a third longer.
_LEVEL = 6
#: Browsers keep a file, and ask by its ETag whether it is still the same: a new version of the
#: service has the same names.
_CACHE_CONTROL = "no-cache"


class _Representation(NamedTuple):
    """A file in one coding."""

    content: memoryview
    etag: str


class PageFile:
    """One file, plain and compressed."""

    def __init__(self, name: str, content: bytes) -> None:
        self._type = TYPES[PurePosixPath(name).suffix]
        digest = hashlib.sha256(content).hexdigest()[:32]
        compressed = zlib.compress(content, _LEVEL, _GZIP_WINDOW)
        self._codings = {IDENTITY: _Representation(memoryview(content), f'"{digest}"')}
        if len(compressed) < len(content):
            # A representation of its own has an ETag of its own (RFC 9110, section 8.8.3.3).
            tag = f'"{digest}-{_GZIP}"'
            self._codings[_GZIP] = _Representation(memoryview(compressed), tag)

    def response(
        self, request: Request, headers: Mapping[str, str] | None = None, vary: str = ""
    ) -> Response:
        """The file in the preferred coding, or 304 if the client has it already.

        ``headers`` are added; ``vary`` names the fields that led to this file.
        """
        accepted = ", ".join(request.headers.getlist("accept-encoding"))
        coding = preferred_coding(accepted, tuple(self._codings))
        content, etag = self._codings[coding]
        fields = {
            **(headers or {}),
            "Cache-Control": _CACHE_CONTROL,
            "ETag": etag,
            "Vary": ", ".join(filter(None, [vary, "Accept-Encoding"])),
        }
        if _matches(request.headers.getlist("if-none-match"), etag):
            return Response(status_code=304, headers=fields)
        if coding != IDENTITY:
            fields["Content-Encoding"] = coding
        return Response(content, media_type=self._type, headers=fields)


class PageFiles:
    """The files of a folder, by their paths in it."""

    def __init__(self, folder: Traversable, names: Iterable[str]) -> None:
        self._files = {name: PageFile(name, folder.joinpath(name).read_bytes()) for name in names}

    def __getitem__(self, name: str) -> PageFile:
        """The file. Raises :class:`NotFound`."""
        if name not in self._files:
            raise NotFound("there is nothing at this path")
        return self._files[name]


def _matches(fields: Iterable[str], etag: str) -> bool:
    """Whether ``If-None-Match`` names an ETag; proxies that compress make them weak."""
    tags = {tag.strip().removeprefix("W/") for tag in ",".join(fields).split(",")}
    return not tags.isdisjoint({etag, "*"})
