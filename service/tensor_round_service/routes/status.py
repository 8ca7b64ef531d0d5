"""What the service is and whether it is well: operators, conformance, health."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from .. import conformance
from ..catalog import catalog
from ..engine import Engine
from ..readiness import Readiness

#: What ``readyz`` may also answer, for the OpenAPI document.
_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "`draining` or `backend_failed`, with Retry-After",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
}


def status_router(engine: Engine, max_tensor_bytes: int, readiness: Readiness) -> APIRouter:
    """The routes that describe and watch the service."""
    router = APIRouter()
    described = catalog(max_tensor_bytes)
    report: asyncio.Future[dict[str, Any]] | None = None

    @router.get("/operators", tags=["operators"], summary="What can be asked for")
    async def list_operators() -> dict[str, Any]:
        """Dialects, versions, modes, dtypes and limits."""
        return described

    @router.get("/conformance", tags=["operators"], summary="Proof of exactness")
    async def show_conformance() -> dict[str, Any]:
        """SHA-256 of the backend's results for all bit patterns of every 8- and 16-bit type.

        Computed by the backend itself, once, and compared with the published digests.
        """
        nonlocal report
        if report is None or (report.done() and report.exception()):
            report = asyncio.ensure_future(_report(engine))
        # Shielded: one caller hanging up does not take the report from the others.
        return await asyncio.shield(report)

    @router.get("/livez", tags=["health"], summary="Is the process alive?")
    async def livez() -> dict[str, str]:
        """Answers as long as the event loop turns; does nothing else."""
        return {"status": "alive"}

    @router.get("/readyz", tags=["health"], summary="Can it serve?", responses=_NOT_READY)
    async def readyz() -> dict[str, str]:
        """Answers 200 where the backend has just rounded right, and the service stays."""
        await readiness.check()
        return {"status": "ready", "backend": engine.backend.name}

    return router


async def _report(engine: Engine) -> dict[str, Any]:
    return await engine.run(lambda: conformance.report(engine.backend), 1 << 20)
