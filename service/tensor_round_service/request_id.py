"""``X-Request-ID`` on every answer: the caller's own if it is sane, else a fresh one."""

from __future__ import annotations

import itertools
import os
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp

from tensor_round.wire import native

from .answers import Send, field_name
from .direct import Header
from .receive import Receive

#: The ASGI extension under which a request has its sane id, where a header does not.
REQUEST_ID = "tensor_round.request_id"

_REQUEST_ID = field_name(native.REQUEST_ID)
#: Fresh ids are unique without a system call each: random for the process, then counted.
_process = os.urandom(8).hex().encode()
_count = itertools.count(1)


def request_id_header(scope: MutableMapping[str, Any]) -> Header:
    """The header for the answer to this request."""
    if known := scope.get("extensions", {}).get(REQUEST_ID):
        return id_header(known)
    for name, value in scope["headers"]:
        if name == _REQUEST_ID and native.is_request_id(value.decode("latin-1")):
            return id_header(value)
    return id_header(b"")


def id_header(own: bytes) -> Header:
    """The header with a request's own id, or with a fresh one."""
    return _REQUEST_ID, own or b"%s-%x" % (_process, next(_count))


class RequestIdMiddleware:
    """Pure ASGI: one header more on every answer that has none yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on, and put its id on the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if all(name != _REQUEST_ID for name, _ in headers):
                    headers.append(request_id_header(scope))
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_with_id)
