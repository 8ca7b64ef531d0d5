"""Bodies of control requests: small JSON objects, or empty."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from tensor_round.contract.errors import MalformedJSON
from tensor_round.contract.wire import strictjson

from ..http1.asgi import AsgiRequest
from ..http1.content import read_all
from .tensor_route import content_of

#: Maximum length of a control request's body in bytes.
MAX_LENGTH = 64 << 10
_MAX_DEPTH = 16


async def control_body(request: Request) -> dict[str, Any]:
    """The members of the JSON object in the body, for any Content-Type; none for an empty body."""
    source, _ = content_of(AsgiRequest(request.scope, request.receive))
    body = await read_all(source, MAX_LENGTH, _reserve_nothing)
    document = strictjson.loads(body, max_depth=_MAX_DEPTH) if body else {}
    if not isinstance(document, dict):
        raise MalformedJSON("the body must be a JSON object")
    return document


def _reserve_nothing(_nbytes: int) -> None:
    """The body is too small to count against the memory budget."""
