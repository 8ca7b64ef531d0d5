"""The document put together: FastAPI's paths, what is added to them, and their order."""

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
backend. Browsers show -0.0 as 0, as JavaScript writes it so; the response has the sign.

Every path that takes GET takes HEAD too."""

_TAGS = [
    {"name": "round", "description": "One operator, one tensor."},
    {"name": "service", "description": "What the service is, takes and has proved."},
    {"name": "health", "description": "For probes; open without a key."},
    {
        "name": "open inference protocol",
        "description": "The same operators as models, for tritonclient, KServe and others.",
    },
]

#: What any request may be refused with, wherever it goes.
_ANYWHERE = ("misdirected_host", "headers_too_large", "overloaded", "backend_failed")


def describe(app: FastAPI, open_paths: Set[str], *, has_keys: bool) -> None:
    """Make ``app.openapi()`` tell of the plain ASGI routes and of every refusal.

    ``open_paths`` need no key where others do, which is where ``has_keys``.
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
            # What FastAPI assumes of validation errors is not what this service answers.
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
    """The refusals of a path that nothing is sent to."""
    codes = [*(() if is_open else ("unauthorized",)), *_ANYWHERE]
    return problem_responses([*codes, *(("draining",) if path == "/readyz" else ())])
