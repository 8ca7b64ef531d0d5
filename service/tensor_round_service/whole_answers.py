"""The framework's answers, sent as those of tensor routes are."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp

from .answers import Send
from .direct import direct_exchange
from .receive import Receive


class WholeAnswerMiddleware:
    """Pure ASGI: each answer of the application goes out whole, by the direct way if there is one.

    Sent piece by piece, an answer to a request whose body has not come yet could not say that
    its connection ends with it, and a next request on it would be lost.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Gather the answer's pieces, and answer with them."""
        exchange = direct_exchange(scope) if scope["type"] == "http" else None
        if exchange is None:
            await self._app(scope, receive, send)
            return
        start: MutableMapping[str, Any] = {}
        parts: list[bytes] = []

        async def gather(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await exchange.respond(start["status"], list(start.get("headers", ())), parts)

        await self._app(scope, receive, gather)
