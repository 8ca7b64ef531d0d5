"""The bodies of requests that control the server: small JSON objects, or nothing."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from tensor_round.errors import MalformedJSON
from tensor_round.wire import strictjson

from ..http1.asgi import AsgiRequest
from ..http1.content import read
from .tensor_route import content_of

#: Bytes; nothing that a control request can say needs more.
MAX_LENGTH = 64 << 10
_MAX_DEPTH = 16


async def control_body(request: Request) -> dict[str, Any]:
    """The members of the request's body, none where it is empty; whatever its Content-Type."""
    source = content_of(AsgiRequest(request.scope, request.receive))
    body = await read(source, MAX_LENGTH, _reserve_nothing)
    document = strictjson.loads(body, max_depth=_MAX_DEPTH) if body else {}
    if not isinstance(document, dict):
        raise MalformedJSON("the body must be a JSON object")
    return document


def _reserve_nothing(_nbytes: int) -> None:
    """It is little, whatever was sent."""
