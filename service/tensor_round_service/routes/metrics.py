"""``GET /metrics`` for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ..metrics.recorder import Metrics


def metrics_router(metrics: Metrics) -> APIRouter:
    """The route of the metrics of all workers."""
    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["service"],
        summary="Metrics, in Prometheus' format",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def show_metrics(request: Request) -> Response:
        """Metrics of all workers, in Prometheus' text format or OpenMetrics."""
        content, media_type = await metrics.exposition(request.headers.get("accept", ""))
        return Response(content, headers={"Content-Type": media_type})

    return router
