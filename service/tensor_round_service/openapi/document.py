"""The OpenAPI document: FastAPI's paths, the additions to them, and their order."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from . import comparing, errors, inference, rounding
from .errors import problem_responses
from .security import add_keys

_DESCRIPTION = """\
Rounds tensors exactly: every result is the one that IEEE 754 defines, to the last bit, on every
backend. JavaScript prints -0.0 as 0, so browsers show 0; the response has the sign.

Every path that allows GET also allows HEAD."""

_TAGS = [
    {"name": "round", "description": "One operator, one tensor."},
    {"name": "service", "description": "Operators, limits and proof of exactness."},
    {"name": "health", "description": "For probes; no key is needed."},
    {
        "name": "open inference protocol",
        "description": "The same operators as models, for tritonclient, KServe and others.",
    },
]

#: Codes of refusals on every path.
_ANYWHERE = ("misdirected_host", "headers_too_large", "overloaded", "backend_failed")


def describe(app: FastAPI, open_paths: Set[str], *, has_keys: bool) -> None:
    """Make ``app.openapi()`` return the completed document.

    ``has_keys`` says whether the service has API keys; ``open_paths`` need none.
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
            schemas = document["components"]["schemas"]
            # The service does not use FastAPI's format of validation errors.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            parts = (rounding.schemas(), comparing.schemas(), inference.SCHEMAS)
            schemas.update(errors.SCHEMAS, **{k: v for part in parts for k, v in part.items()})
            paths = document["paths"]
            for path, operations in paths.items():
                for operation in operations.values():
                    operation["responses"].update(_refusals(path, path in open_paths))
            document["paths"] = {
                "/round": {"post": rounding.operation()},
                "/compare": {"post": comparing.operation()},
                **paths,
            }
            inference.add_inference(document["paths"], open_paths)
            if has_keys:
                add_keys(document, open_paths)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _refusals(path: str, is_open: bool) -> dict[str, Any]:
    """The refusals of a path without a request body."""
    codes = [*(() if is_open else ("unauthorized",)), *_ANYWHERE]
    return problem_responses([*codes, *(("draining",) if path == "/readyz" else ())])
