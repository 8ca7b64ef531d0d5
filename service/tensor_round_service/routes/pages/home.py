"""The web page at ``/``, which rounds numbers and shows their bits.

``make web`` builds its files into the folder ``web`` of this package; wheels and images built
after that contain them. Without them, browsers get a page with instructions.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from tensor_round.errors import NotFound
from tensor_round.wire.accept import preferred_coding
from tensor_round.wire.native import JSON

from ...documents import Links
from ...http1.security_headers import page_headers

FOLDER = Path(__file__).parents[2] / "web"
_START = "index.html"
_HTML = "text/html"
_FILES = {"page.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml"}
#: Paths of its files; they exist if the page is built.
FILE_PATHS = frozenset(f"/page/{name}" for name in _FILES)
PATHS = FILE_PATHS if (FOLDER / _START).is_file() else frozenset[str]()


def wants_html(accept: str) -> bool:
    """Whether ``Accept`` prefers HTML to JSON, the default."""
    # Media types and codings have the same weights (RFC 9110, section 12.4.2).
    return preferred_coding(accept, (_HTML, JSON)) == _HTML


def page_response(links: Links, folder: Path = FOLDER) -> HTMLResponse:
    """The page, or instructions for building it."""
    start = folder / _START
    content = start.read_text() if start.is_file() else _not_built(links)
    return HTMLResponse(content, headers={**page_headers(), "Vary": "Accept"})


def page_router(folder: Path = FOLDER) -> APIRouter:
    """The routes of the page's files."""
    router = APIRouter(include_in_schema=False)

    @router.get("/page/{name}")
    async def page_file(name: str) -> Response:
        """One file; not cached, since all versions of the page use the same names."""
        path = folder / "page" / name
        if name not in _FILES or not path.is_file():
            raise NotFound("there is nothing at this path")
        return Response(path.read_bytes(), media_type=_FILES[name])

    return router


def _not_built(links: Links) -> str:
    # Relative links, since a proxy may serve this page at another path.
    paths = [str(path) for name, path in links.items() if name not in ("round", "compare")]
    items = "".join(f'<li><a href="{path[1:]}">{path}</a></li>' for path in paths)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>tensor-round</title></head>'
        "<body><main><h1>tensor-round</h1><p>The service is running. Its web page has not been "
        "built: run <code>make web</code> in the clone (requires node 20.19 or newer and npm), "
        "restart the service, and reload this page.</p>"
        f"<ul>{items}</ul></main></body></html>"
    )
