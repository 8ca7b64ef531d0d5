"""The OpenAPI document: FastAPI's paths, completed with tensor routes, bodies and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ..routes.table import RoutingTable
from .errors import Problem, problem_responses
from .round_operation import TYPES
from .schemas import Schema, components

_DESCRIPTION = """\
Rounds tensors exactly: every result is the one that IEEE 754 defines, to the last bit, on every
backend. JavaScript prints -0.0 as 0, so browsers show 0; the response has the sign.

Every path that allows GET also allows HEAD."""

_TAGS = [
    {"name": "round", "description": "One operator, one tensor."},
    {"name": "service", "description": "Operators, limits and proof of exactness."},
    {"name": "health", "description": "For probes; no key is needed."},
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
_ANYWHERE = (
    "invalid_host",
    "misdirected_host",
    "headers_too_large",
    "overloaded",
    "backend_failed",
)


class Complete(Protocol):
    """Completes an operation, in place."""

    def __call__(self, operation: Schema, path: str, method: str, *, is_open: bool) -> None:
        """Add what FastAPI cannot derive; ``is_open`` says that it needs no key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A feature's part of the document."""

    #: Components, by name.
    schemas: Callable[[], Schema]
    #: The tag of its operations.
    tag: Mapping[str, str] | None = None
    #: Completes the operations in the feature's folder.
    complete: Complete | None = None


def describe(
    app: FastAPI,
    table: RoutingTable,
    descriptions: Sequence[tuple[str, Description]],
    *,
    has_keys: bool,
) -> None:
    """Make ``app.openapi()`` return the completed document.

    ``descriptions`` are those of features, each with its folder or an empty string. ``has_keys``
    says whether the service has API keys.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, table, descriptions)
            if has_keys:
                _secure(app.openapi_schema, table)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _document(
    app: FastAPI, table: RoutingTable, descriptions: Sequence[tuple[str, Description]]
) -> Schema:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_DESCRIPTION,
        routes=app.routes,
        tags=[*_TAGS, *({**d.tag} for _, d in descriptions if d.tag)],
        # Relative to the document: a proxy may add a path.
        servers=[{"url": ".", "description": "This service"}],
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    # The service does not use FastAPI's format of validation errors.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(components(Problem, *TYPES))
    for _, description in descriptions:
        schemas.update(description.schemas())
    written = {path for path in table.operations if path not in document["paths"]}
    for path, operation in table.operations.items():
        document["paths"].setdefault(path, {}).setdefault("post", {}).update(operation())
    # In the order of the table.
    paths = document["paths"]
    document["paths"] = {path: paths[path] for path in table.paths if path in paths}
    for path, methods in document["paths"].items():
        of_feature = [
            d for folder, d in descriptions if folder and f"{path}/".startswith(f"{folder}/")
        ]
        complete = of_feature[0].complete if of_feature else None
        is_open = path in table.open_paths
        for method, operation in methods.items():
            if complete is not None:
                complete(operation, path, method, is_open=is_open)
            elif path not in written:
                operation["responses"].update(_refusals(path, is_open))
    return document


def _secure(document: Schema, table: RoutingTable) -> None:
    """Add the API keys."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if path in table.open_paths:
                operation["security"] = []
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    document["security"] = [{name: []} for name in _SECURITY_SCHEMES]


def _refusals(path: str, is_open: bool) -> Schema:
    """The refusals of a path without a request body."""
    codes = [*(() if is_open else ("unauthorized",)), *_ANYWHERE]
    return problem_responses([*codes, *(("draining",) if path == "/readyz" else ())])
