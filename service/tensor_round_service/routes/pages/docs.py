"""``GET /docs``: Swagger UI, and a page on errors, without resources from other hosts.

The files of Swagger UI are in the package ``fastapi-swagger``. FastAPI's own page would load them
from a CDN.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse

from tensor_round.contract.errors import ERRORS_PATH

from ...http1.response import page_headers
from .errors_page import errors_html
from .files import PageFiles

_NAMES = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
#: The links of the page are relative to ``/docs``, so this path redirects.
PAGE_WITH_SLASH = "/docs/"
#: The paths of this module.
PATHS = frozenset({"/docs", PAGE_WITH_SLASH, ERRORS_PATH, *(f"/docs/{name}" for name in _NAMES)})

_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@cache
def _files() -> PageFiles:
    return PageFiles(files("fastapi_swagger").joinpath("resources"), _NAMES)


def docs_router(title: str) -> APIRouter:
    """The routes of the pages and their files."""
    router = APIRouter(include_in_schema=False)
    html = bytes(
        get_swagger_ui_html(
            openapi_url="openapi.json",
            title=title,
            swagger_js_url="docs/swagger-ui-bundle.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="docs/favicon-32x32.png",
            swagger_ui_parameters={"tryItOutEnabled": True, "displayRequestDuration": True},
        ).body
    ).decode()
    headers = page_headers(_INLINE_SCRIPT.findall(html))
    errors = errors_html(title)

    @router.get("/docs")
    async def page() -> HTMLResponse:
        """Swagger UI on this service's OpenAPI document."""
        return HTMLResponse(html, headers=headers)

    @router.get(PAGE_WITH_SLASH)
    async def page_with_slash() -> RedirectResponse:
        """Redirect to the page, by a relative URL that works behind proxies."""
        return RedirectResponse("../docs", status_code=308)

    @router.get(ERRORS_PATH)
    async def errors_page() -> HTMLResponse:
        """The page that the ``type`` of a problem document links to."""
        return HTMLResponse(errors, headers=page_headers())

    swagger = _files()

    @router.get("/docs/{name}")
    async def file(name: str, request: Request) -> Response:
        """One of the page's files."""
        return swagger[name].response(request)

    return router
