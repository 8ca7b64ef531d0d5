"""The application: the parts put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.routing import Route

from .backends.choice import choose
from .engine import Engine
from .openapi import describe
from .refusals import add_refusal_handlers
from .request_id import RequestIdMiddleware
from .routes.docs import docs_router
from .routes.round import RoundEndpoint
from .routes.status import status_router
from .settings import Settings

TITLE = "tensor-round"


def create_app(settings: Settings, engine: Engine | None = None) -> FastAPI:
    """The ASGI application on these settings.

    An engine that is given stays the caller's; one made here is closed with the application.
    Raises :class:`~.backends.choice.BackendUnavailable`.
    """
    own = engine is None
    serving = Engine(choose(settings.backend)) if engine is None else engine

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if own:
                serving.close()

    app = FastAPI(
        title=TITLE,
        version=version(TITLE),
        summary="Exact tensor rounding: DirectML, ONNX, OpenVINO and IEEE 754, to the last bit.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirected upload is an upload lost.
        redirect_slashes=False,
    )
    # The hot route is plain ASGI; its OpenAPI entry is written in openapi.py.
    round_endpoint = RoundEndpoint(serving, settings.max_tensor_bytes)
    app.router.routes.append(Route("/round", round_endpoint, methods=["POST"]))
    app.include_router(status_router(serving, settings.max_tensor_bytes))
    app.include_router(docs_router(TITLE))
    app.add_middleware(RequestIdMiddleware)
    add_refusal_handlers(app)
    describe(app)
    return app


__all__ = ["create_app"]
