"""The OpenAPI document: FastAPI's paths, completed with tensor routes, bodies and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from . import errors, inference, tensors
from .errors import problem_responses
from .schemas import Schema

_DESCRIPTION = """\
Rounds tensors exactly: every result is the one that IEEE 754 defines, to the last bit, on every
backend. JavaScript prints -0.0 as 0, so browsers show 0; the response has the sign.

Every path that allows GET also allows HEAD."""

_TAGS = [
    {"name": "round", "description": "One operator, one tensor."},
    {"name": "service", "description": "Operators, limits and proof of exactness."},
    {"name": "health", "description": "For probes; no key is needed."},
    {
        "name": inference.TAG,
        "description": "The same operators as models, for tritonclient, KServe and others.",
    },
]
_SECURITY_SCHEMES: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key; not together with the other header.",
    },
}

#: Codes of refusals on every path.
_ANYWHERE = ("misdirected_host", "headers_too_large", "overloaded", "backend_failed")


def describe(
    app: FastAPI,
    operations: Mapping[str, Callable[[], Schema]],
    open_paths: Set[str],
    *,
    has_keys: bool,
) -> None:
    """Make ``app.openapi()`` return the completed document.

    ``operations`` are what FastAPI cannot derive, by path: whole operations or parts, all of them
    POST. ``has_keys`` says whether the service has API keys; ``open_paths`` need none.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=_DESCRIPTION,
                routes=app.routes,
                tags=_TAGS,
                servers=[{"url": "/", "description": "This service"}],
                license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            )
            components = document["components"]
            # The service does not use FastAPI's format of validation errors.
            for name in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(name, None)
            components["schemas"].update(
                {**errors.SCHEMAS, **tensors.schemas(), **inference.SCHEMAS}
            )
            found, written = document["paths"], {}
            for path, operation in operations.items():
                if path in found:
                    found[path]["post"].update(operation())
                else:
                    written[path] = {"post": operation()}
            of_v2 = {path: written.pop(path) for path in [*written] if path.startswith("/v2")}
            paths = document["paths"] = {**written, **found, **of_v2}
            for path, methods in paths.items():
                is_open = path in open_paths
                for method, operation in methods.items():
                    if path.startswith("/v2"):
                        inference.complete(operation, path, method, is_open=is_open)
                    elif path not in written:
                        operation["responses"].update(_refusals(path, is_open))
                    if has_keys and is_open:
                        operation["security"] = []
            if has_keys:
                components["securitySchemes"] = _SECURITY_SCHEMES
                document["security"] = [{name: []} for name in _SECURITY_SCHEMES]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _refusals(path: str, is_open: bool) -> Schema:
    """The refusals of a path without a request body."""
    codes = [*(() if is_open else ("unauthorized",)), *_ANYWHERE]
    return problem_responses([*codes, *(("draining",) if path == "/readyz" else ())])
