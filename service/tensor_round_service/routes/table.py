"""The table of routes: a row has all that the service knows of a path.

FastAPI's routes, the OpenAPI document, the links of the page, the paths that need no key and those
that metrics count by their names are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from ..openapi.schemas import Schema
from .tensor_route import TensorRoute


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """One route: its path and method, its handler, and where it is listed."""

    path: str
    #: A tensor route, or a function that FastAPI calls; None for a path of FastAPI's own.
    endpoint: TensorRoute | Callable[..., Any] | None
    #: Summary and tag in the OpenAPI document; a route without a summary is not in there.
    summary: str = ""
    tag: str = "service"
    method: str = "GET"
    #: Name of its link in the document at ``/``.
    link: str = ""
    #: Whether it needs no API key. Paths are compared once they are decoded and, of GET, HEAD and
    #: OPTIONS, without a trailing slash: /livez%2f is /livez.
    is_open: bool = False
    #: Whether machines ask for it again and again: probes, and Prometheus.
    is_probe: bool = False
    #: Whether metrics count it by its name, and not by that of its folder.
    is_counted: bool = True
    #: The paths that it serves, if its own has a parameter for them.
    files: frozenset[str] = frozenset()
    #: The OpenAPI operation, or the part of it that FastAPI cannot derive.
    operation: Callable[[], Schema] | None = None
    #: Further options of FastAPI's.
    options: Mapping[str, Any] = field(default_factory=dict)


class RoutingTable:
    """The rows of an application, and what is derived from them."""

    def __init__(self, rows: Iterable[RouteEntry]) -> None:
        self._rows = tuple(rows)
        rows = self._rows
        #: All paths, in the order of the rows.
        self.paths = tuple(dict.fromkeys(row.path for row in rows))
        #: Tensor routes, which the dispatcher calls without FastAPI. All of them are POST.
        self.tensor_routes = {
            row.path: row.endpoint for row in rows if isinstance(row.endpoint, TensorRoute)
        }
        #: Operations of the OpenAPI document or parts of them, all of them POST, by path.
        self.operations = {row.path: row.operation for row in rows if row.operation is not None}
        #: Paths that need no API key. All others need one, unknown paths too.
        self.open_paths = _paths(row for row in rows if row.is_open)
        #: Paths that machines ask for again and again.
        self.probes = _paths(row for row in rows if row.is_probe)
        #: Paths that metrics count by their names.
        self.counted_paths = _paths(row for row in rows if row.is_counted)
        #: Paths that end in a slash themselves.
        self.folders = frozenset({"/", *(row.path for row in rows if row.path.endswith("/"))})

    def add_to(self, app: FastAPI) -> None:
        """Add FastAPI's routes."""
        for row in self._rows:
            if isinstance(row.endpoint, TensorRoute):
                # For 405 on other methods.
                app.router.routes.append(Route(row.path, _dispatched, methods=[row.method]))
            elif row.endpoint is not None:
                app.add_api_route(
                    row.path,
                    row.endpoint,
                    methods=[row.method],
                    summary=row.summary or None,
                    tags=[row.tag],
                    include_in_schema=bool(row.summary),
                    **row.options,
                )


def _paths(rows: Iterable[RouteEntry]) -> frozenset[str]:
    return frozenset().union(*(row.files or {row.path} for row in rows))


async def _dispatched(_request: object) -> None:
    raise RuntimeError("the dispatcher passes POST requests to tensor routes")
