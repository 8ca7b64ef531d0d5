"""``X-Request-ID`` on every answer: the caller's own if it is sane, else a fresh one."""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp

from tensor_round.wire import native

from .answers import Send, field_name
from .receive import Receive

_REQUEST_ID = field_name(native.REQUEST_ID)


class RequestIdMiddleware:
    """Pure ASGI: one look at the headers on the way in, one header more on the way out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on, and put its id on the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _REQUEST_ID), b"")
        sane = native.is_request_id(given.decode("latin-1"))
        request_id = given if sane else uuid.uuid4().hex.encode()

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_REQUEST_ID, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)
