"""The routes of every service: its name and links, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastapi import Request, Response

from tensor_round.contract.errors import NotFound
from tensor_round.contract.version import __version__

from .. import service_types
from ..engine.engine import Engine
from ..engine.readiness import Readiness
from ..metrics.counts import Metrics
from ..metrics.exposition import exposition
from .table import RouteEntry

METRICS_PATH = "/metrics"
_TEXT = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def service_row(
    rows: Iterable[RouteEntry], homes: Sequence[Callable[[Request], Response | None]] = ()
) -> RouteEntry:
    """The route at ``/``, with the links of the other routes, or the first home page."""
    links = {row.link: row.path for row in rows if row.link}

    async def service_info(request: Request, response: Response) -> Any:
        """Name, version and paths of the service; browsers get the web page."""
        for home in homes:
            if page := home(request):
                return page
        response.headers["Vary"] = "Accept"
        return {"name": service_types.NAME, "version": __version__, "links": links}

    options = {"response_model": service_types.ServiceInfo}
    return RouteEntry("/", service_info, "Name, version and links", is_open=True, options=options)


def health_rows(engine: Engine, readiness: Readiness) -> list[RouteEntry]:
    """The routes for probes."""

    async def livez() -> service_types.Liveness:
        """Responds 200 as long as the event loop runs; tests nothing else."""
        return {"status": "alive"}

    async def readyz() -> service_types.Readiness:
        """Responds 200 if the backend rounds known values correctly and no drain has begun."""
        await readiness.check()
        return {"status": "ready", "backend": engine.backend.name}

    return [
        RouteEntry(path, endpoint, summary, "health", link=path[1:], is_open=True, is_probe=True)
        for path, endpoint, summary in (
            ("/livez", livez, "Is the process alive?"),
            ("/readyz", readyz, "Can it serve?"),
        )
    ]


def metrics_row(metrics: Metrics, backend: str) -> RouteEntry:
    """The route of the metrics of all workers, which have this backend."""
    info = {"version": __version__, "backend": backend}

    async def show_metrics(request: Request) -> Response:
        """Metrics of all workers, in Prometheus' text format or OpenMetrics."""
        accept = request.headers.get("accept", "")
        content, media_type = exposition(*await metrics.of_all_workers(), info, accept)
        return Response(content, headers={"Content-Type": media_type})

    options = {"response_class": Response, "responses": _TEXT}
    summary = "Metrics, in Prometheus' format"
    return RouteEntry(METRICS_PATH, show_metrics, summary, is_probe=True, options=options)


def moved_metrics_row() -> RouteEntry:
    """The same path on the port of the service, if the metrics have a separate port."""

    def refuse_metrics() -> None:
        raise NotFound(
            "the metrics are on a separate port (METRICS_PORT), without TLS and keys; the "
            "service's log says at its start which"
        )

    return RouteEntry(METRICS_PATH, refuse_metrics)
