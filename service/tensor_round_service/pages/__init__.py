"""HTML pages: the web page at ``/``, Swagger UI, and a page on errors.

No page needs resources of other hosts. Files are read, hashed and compressed once, and shared by
all responses: a response refers to the memory of its file, so that callers who do not read take
none of their own.

The files of the web page are in the folder ``web`` of this package, as the browser runs them.
``index.html`` is served at ``/``, the others at ``/page/`` and their paths in the folder. The files
of Swagger UI are in the package ``fastapi-swagger``. FastAPI's own page would load them from a CDN.
"""

from __future__ import annotations

import hashlib
import html
import inspect
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from fastapi import Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse

from tensor_round.contract.errors import ERRORS_PATH, NotFound, RequestRefused, problem
from tensor_round.contract.wire.http_fields import JSON

from ..features import Feature, FeatureContext
from ..net.codings import IDENTITY, WINDOWS, preferred_coding
from ..net.response import page_headers
from ..openapi.errors import EXAMPLES
from ..routes.table import RouteEntry
from ..service_types import NAME

#: The types that pages have, by suffix; no other file is served.
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_GZIP = "gzip"
#: zlib's default. Level 9 saves 1 % of Swagger UI, and takes a third longer.
_LEVEL = 6
#: Browsers keep a file, and ask by its ETag whether it is still the same: a new version of the
#: service has the same names.
_CACHE_CONTROL = "no-cache"

_WEB = Path(__file__).parent / "web"
_START = "index.html"
_SWAGGER = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_CODE = re.compile(r"``(.+?)``")


class PageFile:
    """One file, plain and compressed."""

    def __init__(self, name: str, content: bytes) -> None:
        self._type = TYPES[PurePosixPath(name).suffix]
        digest = hashlib.sha256(content).hexdigest()[:32]
        compressed = zlib.compress(content, _LEVEL, WINDOWS[_GZIP])
        #: Content and ETag in each coding.
        self._codings = {IDENTITY: (memoryview(content), f'"{digest}"')}
        if len(compressed) < len(content):
            # A separate representation has a separate ETag (RFC 9110, section 8.8.3.3).
            tag = f'"{digest}-{_GZIP}"'
            self._codings[_GZIP] = memoryview(compressed), tag

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

    def row(self, pattern: str, *, is_counted: bool) -> RouteEntry:
        """The route of the files, whose paths in the folder are the parameter ``name``."""

        async def file(name: str, request: Request) -> Response:
            return self[name].response(request)

        served = frozenset(pattern.partition("{")[0] + name for name in self._files)
        return RouteEntry(pattern, file, is_open=True, is_counted=is_counted, files=served)


def feature(_context: FeatureContext) -> Feature:
    """The pages and their files."""
    return Feature(rows=page_rows(NAME), folder="/page", home=home_page)


def page_rows(title: str) -> list[RouteEntry]:
    """The routes of the pages and their files, except that of ``/``."""
    swagger = bytes(
        get_swagger_ui_html(
            openapi_url="openapi.json",
            title=title,
            swagger_js_url="docs/swagger-ui-bundle.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="docs/favicon-32x32.png",
            swagger_ui_parameters={
                "tryItOutEnabled": True,
                "displayRequestDuration": True,
                # A hundred schemas hide what follows them; a click opens their list.
                "defaultModelsExpandDepth": 0,
            },
        ).body
    ).decode()
    headers = page_headers(_INLINE_SCRIPT.findall(swagger))
    errors = _errors_html(title)

    async def docs() -> HTMLResponse:
        """Swagger UI on this service's OpenAPI document."""
        return HTMLResponse(swagger, headers=headers)

    async def docs_with_slash() -> RedirectResponse:
        """Redirect to the page, by a relative URL that works behind proxies."""
        return RedirectResponse("../docs", status_code=308)

    async def errors_page() -> HTMLResponse:
        """The page that the ``type`` of a problem document links to."""
        return HTMLResponse(errors, headers=page_headers())

    return [
        RouteEntry("/docs", docs, link="docs", is_open=True),
        # The links of the page are relative to ``/docs``, so this path redirects.
        RouteEntry("/docs/", docs_with_slash, is_open=True),
        RouteEntry(ERRORS_PATH, errors_page, is_open=True),
        _swagger_files().row("/docs/{name}", is_counted=True),
        _web_files().row("/page/{name:path}", is_counted=False),
    ]


def home_page(request: Request) -> Response | None:
    """The web page; None if ``Accept`` prefers JSON, which is the default."""
    if not wants_html(request.headers.get("accept", "")):
        return None
    return _start_page().response(request, page_headers(), vary="Accept")


def wants_html(accept: str) -> bool:
    """Whether ``Accept`` prefers HTML to JSON, the default."""
    # Media types and codings have the same weights (RFC 9110, section 12.4.2).
    return preferred_coding(accept, (TYPES[".html"], JSON)) == TYPES[".html"]


@cache
def _start_page() -> PageFile:
    return PageFile(_START, (_WEB / _START).read_bytes())


@cache
def _web_files() -> PageFiles:
    names = (path.relative_to(_WEB).as_posix() for path in _WEB.rglob("*") if path.suffix in TYPES)
    return PageFiles(_WEB, {*names} - {_START})


@cache
def _swagger_files() -> PageFiles:
    return PageFiles(files("fastapi_swagger").joinpath("resources"), _SWAGGER)


def _matches(fields: Iterable[str], etag: str) -> bool:
    """Whether ``If-None-Match`` names an ETag; proxies that compress make them weak."""
    tags = {tag.strip().removeprefix("W/") for tag in ",".join(fields).split(",")}
    return not tags.isdisjoint({etag, "*"})


def _errors_html(title: str) -> str:
    """A section for each code, with its meaning and an example, without scripts."""
    sections = sorted(EXAMPLES.values(), key=lambda refusal: (refusal.status, refusal.code))
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>Errors of {html.escape(title)}</title></head><body><h1>Errors</h1>",
            "<p>The response to a refused request is a problem document (RFC 9457). Its "
            "<code>code</code> names the kind of error, its <code>detail</code> the error itself. "
            "Requests with Retry-After in the response may be retried.</p>",
            *map(_section, sections),
            "</body></html>",
        ]
    )


def _section(refusal: RequestRefused) -> str:
    meaning = html.escape(inspect.getdoc(type(refusal)) or "", quote=False)
    meaning = _CODE.sub(r"<code>\1</code>", meaning)
    example = html.escape(json.dumps(problem(refusal), indent=2), quote=False)
    return (
        f'<h2 id="{refusal.code}">{refusal.status} <code>{refusal.code}</code></h2>'
        f"<p>{meaning}</p><pre>{example}</pre>"
    )
