"""The routes that describe the service: links, operators, conformance, health."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response

from .. import documents
from ..deployment import Deployment
from ..documents import catalog
from ..engine import digests
from ..engine.engine import Engine
from ..engine.readiness import Readiness
from .pages.home import page_response, wants_html

_LINKS: documents.Links = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "operators": "/operators",
    "conformance": "/conformance",
    "livez": "/livez",
    "readyz": "/readyz",
    "round": "/round",
    "compare": "/compare",
    "v2": "/v2",
}


def status_router(engine: Engine, deployment: Deployment, readiness: Readiness) -> APIRouter:
    """The routes that describe the service."""
    router = APIRouter()
    described: documents.Operators = {
        **catalog(deployment.limits),
        "service": deployment.terms,
        "execution": {"backend": engine.backend.name, "devices": [*engine.backend.devices]},
    }
    report: asyncio.Future[documents.Conformance] | None = None

    @router.get(
        "/",
        tags=["service"],
        summary="Name, version and links",
        response_model=documents.ServiceInfo,
    )
    async def service_info(request: Request, response: Response) -> Any:
        """Name, version and paths of the service; browsers get the web page."""
        if wants_html(request.headers.get("accept", "")):
            return page_response(request)
        response.headers["Vary"] = "Accept"
        return {"name": documents.NAME, "version": version(documents.NAME), "links": _LINKS}

    @router.get("/operators", tags=["service"], summary="Operators and limits")
    async def list_operators() -> documents.Operators:
        """Dialects, versions, modes, dtypes, effective limits, and how the service is deployed."""
        return described

    @router.get("/conformance", tags=["service"], summary="Proof of exactness")
    async def show_conformance() -> documents.Conformance:
        """SHA-256 of the results for all bit patterns of every 8- and 16-bit type.

        The backend computes them once; they are compared with the published digests.
        """
        nonlocal report
        if report is None or (report.done() and report.exception()):
            report = asyncio.ensure_future(_report(engine))
        # Shielded: a client that disconnects must not cancel the report of other clients.
        return await asyncio.shield(report)

    @router.get("/livez", tags=["health"], summary="Is the process alive?")
    async def livez() -> documents.Liveness:
        """Responds 200 as long as the event loop runs; tests nothing else."""
        return {"status": "alive"}

    @router.get("/readyz", tags=["health"], summary="Can it serve?")
    async def readyz() -> documents.Readiness:
        """Responds 200 if the backend rounds known values correctly and no drain has begun."""
        await readiness.check()
        return {"status": "ready", "backend": engine.backend.name}

    return router


async def _report(engine: Engine) -> documents.Conformance:
    return await engine.run(lambda: digests.report(engine.backend), 1 << 20)
