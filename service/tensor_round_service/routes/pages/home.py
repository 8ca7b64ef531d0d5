"""The web page at ``/``, which rounds numbers and shows their bits.

Its files are in the folder ``web`` of this package, as the browser runs them. ``index.html`` is
served at ``/``, the others at ``/page/`` and their paths in the folder.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from tensor_round.contract.wire.native import JSON

from ...http1.content import preferred_coding
from ...http1.response import page_headers
from .files import TYPES, PageFile, PageFiles

FOLDER = Path(__file__).parents[2] / "web"
_START = "index.html"
_HTML = "text/html"
_NAMES = frozenset(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in TYPES
) - {_START}
_PATH = "/page/"
#: The paths of its files.
FILE_PATHS = frozenset(f"{_PATH}{name}" for name in _NAMES)


@cache
def _page() -> PageFile:
    return PageFile(_START, (FOLDER / _START).read_bytes())


@cache
def _files() -> PageFiles:
    return PageFiles(FOLDER, _NAMES)


def wants_html(accept: str) -> bool:
    """Whether ``Accept`` prefers HTML to JSON, the default."""
    # Media types and codings have the same weights (RFC 9110, section 12.4.2).
    return preferred_coding(accept, (_HTML, JSON)) == _HTML


def page_response(request: Request) -> Response:
    """The page."""
    return _page().response(request, page_headers(), vary="Accept")


def page_router() -> APIRouter:
    """The routes of the page's files."""
    router = APIRouter(include_in_schema=False)
    files = _files()

    @router.get(_PATH + "{name:path}")
    async def page_file(name: str, request: Request) -> Response:
        """One file."""
        return files[name].response(request)

    return router
