"""``GET /docs``: Swagger UI, and a page on errors, without resources from other hosts.

The files of Swagger UI are in the package ``fastapi-swagger``. FastAPI's own page would load them
from a CDN.
"""

from __future__ import annotations

import re
from importlib.resources import files

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tensor_round.errors import ERRORS_PATH, NotFound

from ...http1.security_headers import page_headers
from .errors_page import errors_html

_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
#: The links of the page are relative to ``/docs``, so this path redirects.
PAGE_WITH_SLASH = "/docs/"
#: The paths of this module.
PATHS = frozenset({"/docs", PAGE_WITH_SLASH, ERRORS_PATH, *(f"/docs/{name}" for name in _FILES)})

_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


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

    @router.get("/docs/{name}")
    async def file(name: str) -> Response:
        """One of the page's files."""
        if name not in _FILES:
            raise NotFound("there is nothing at this path")
        content = files("fastapi_swagger").joinpath("resources", name).read_bytes()
        return Response(content, media_type=_FILES[name], headers={"cache-control": "max-age=3600"})

    return router
