"""Refusals as responses, in the format of the path's API."""

from __future__ import annotations

import json

from fastapi import FastAPI
from fastapi import Request as FastAPIRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response as FastAPIResponse
from starlette.exceptions import HTTPException

from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    MethodNotAllowed,
    NotFound,
    RequestRefused,
    problem,
)
from tensor_round.contract.wire import native

from .codec import oip
from .content.sources import ClientDisconnected
from .failures import refusal_for
from .http1.head import Header, MalformedRequest
from .http1.response import NO_STORE, Response, field_name, of_type

_RETRY_AFTER = field_name(native.RETRY_AFTER)
_PLAIN_TEXT = of_type("text/plain; charset=utf-8")
#: Of bytes that are not HTTP/1.1, in metrics and the log: their refusal is no document.
MALFORMED = "malformed_http"


def response_to(
    path: str, error: Exception, traceparent: str | None = None, request_id: str = ""
) -> Response:
    """The refusal for any exception; what is unexpected is logged with the request's id."""
    if isinstance(error, MalformedRequest):
        response = Response(400, _PLAIN_TEXT, [b"Invalid HTTP request received."], [])
        response.code = MALFORMED
        return response
    return refusal_response(path, refusal_for(error, request_id), traceparent)


def refusal_response(
    path: str, refusal: RequestRefused, traceparent: str | None = None
) -> Response:
    """A refusal as a problem document (RFC 9457), or as an Open Inference Protocol error.

    The protocol's errors are one line of text, with status 400 for all invalid requests.
    """
    if is_v2(path):
        status = 400 if refusal.status == 422 else refusal.status
        media_type, content = native.JSON, oip.write_error(refusal.detail)
    else:
        status = refusal.status
        media_type, content = native.PROBLEM_JSON, _problem(refusal, traceparent)
    response = Response(status, of_type(media_type), [content], _headers(refusal))
    response.code = refusal.code
    return response


def _problem(refusal: RequestRefused, traceparent: str | None) -> bytes:
    traced = {} if traceparent is None else {"traceparent": traceparent}
    return json.dumps({**problem(refusal), **traced}).encode()


def is_v2(path: str) -> bool:
    """Whether a path belongs to the Open Inference Protocol."""
    return path == "/v2" or path.startswith("/v2/")


def _headers(refusal: RequestRefused) -> list[Header]:
    headers: list[Header] = []
    if refusal.retry_after is not None:
        headers.append((_RETRY_AFTER, str(max(1, round(refusal.retry_after))).encode()))
    if refusal.status == 401:
        headers += [(b"www-authenticate", b'Bearer realm="tensor-round"'), NO_STORE]
    if isinstance(refusal, MethodNotAllowed):
        headers.append((b"allow", refusal.allow.encode()))
    return headers


def add_refusal_handlers(app: FastAPI) -> None:
    """Install handlers that turn every exception in FastAPI into a refusal."""

    async def refused(request: FastAPIRequest, error: Exception) -> FastAPIResponse:
        refusal = as_refusal(error)
        if isinstance(refusal, NotFound) and request.url.path.endswith("/"):
            # The dispatcher ignores one trailing slash of GET, but none of POST.
            refusal = NotFound(f"{refusal.detail}; try the path without its trailing slash")
        if request.method == "OPTIONS" and isinstance(refusal, MethodNotAllowed):
            # RFC 9110, section 9.3.7. Load balancers use OPTIONS as a probe.
            return FastAPIResponse(headers={"Allow": f"{refusal.allow}, OPTIONS"})
        traceparent = getattr(request.state, "traceparent", None)
        response = refusal_response(request.url.path, refusal, traceparent)
        request.state.code = refusal.code  # respond_by_asgi reads it
        fields = (*response.fixed.fields, *response.headers)
        headers = {name.decode(): value.decode() for name, value in fields}
        return FastAPIResponse(response.parts[0], response.status, headers)

    async def disconnected(_request: FastAPIRequest, _error: Exception) -> FastAPIResponse:
        return FastAPIResponse(status_code=400)  # it is never sent

    for kind in (RequestRefused, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(ClientDisconnected, disconnected)


def as_refusal(error: Exception) -> RequestRefused:
    """The refusal for any exception, FastAPI's included."""
    match error:
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this path")
        case HTTPException(status_code=405):
            methods = {*(error.headers or {}).get("Allow", "").split(", ")}
            if "GET" in methods:
                methods.add("HEAD")
            allow = ", ".join(sorted(methods))
            return MethodNotAllowed(f"this path allows {allow}", allow=allow)
        case RequestValidationError():
            return InvalidDescriptor.of([Fault(tuple(e["loc"]), e["msg"]) for e in error.errors()])
    return refusal_for(error)
