"""Refusals as responses, in the form of the API that a path belongs to."""

from __future__ import annotations

import json

from fastapi import FastAPI
from fastapi import Request as FastAPIRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response as FastAPIResponse
from starlette.exceptions import HTTPException

from tensor_round.errors import (
    Fault,
    InvalidDescriptor,
    MethodNotAllowed,
    NotFound,
    RequestRefused,
    problem,
)
from tensor_round.wire import native, oip_answer

from .failures import refusal_for
from .http1.head import Header
from .http1.request import ClientDisconnected
from .http1.response import FixedFields, Response, field_name
from .http1.security_headers import NO_STORE

_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_RETRY_AFTER = field_name(native.RETRY_AFTER)


def refusal_response(
    path: str, refusal: RequestRefused, traceparent: str | None = None
) -> Response:
    """A refusal as application/problem+json (RFC 9457), or as the Open Inference Protocol has it.

    What is wrong in a request is 400 there, whichever rule it breaks, and one line of text.
    """
    if is_v2(path):
        status = 400 if refusal.status == 422 else refusal.status
        media_type, content = native.JSON, oip_answer.write_error(refusal.detail)
    else:
        status = refusal.status
        media_type, content = native.PROBLEM_JSON, _problem(refusal, traceparent)
    fixed = FixedFields((_CONTENT_TYPE, media_type.encode()))
    response = Response(status, fixed, [content], _headers(refusal))
    response.code = refusal.code
    return response


def _problem(refusal: RequestRefused, traceparent: str | None) -> bytes:
    traced = {} if traceparent is None else {"traceparent": traceparent}
    return json.dumps({**problem(refusal), **traced}).encode()


def is_v2(path: str) -> bool:
    """Whether a path belongs to the Open Inference Protocol, which tells errors its own way."""
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
    """Have every error that reaches the framework told in the form of its path."""

    async def refused(request: FastAPIRequest, error: Exception) -> FastAPIResponse:
        refusal = as_refusal(error)
        if isinstance(refusal, NotFound) and request.url.path.endswith("/"):
            # For GET it is passed over: this is a request with a body, or has two.
            refusal = NotFound(f"{refusal.detail}; try it without the slash at its end")
        if request.method == "OPTIONS" and isinstance(refusal, MethodNotAllowed):
            # What the path takes (RFC 9110, section 9.3.7); load balancers probe by it.
            return FastAPIResponse(headers={"Allow": f"{refusal.allow}, OPTIONS"})
        response = refusal_response(request.url.path, refusal)
        fields = (*response.fixed.fields, *response.headers)
        headers = {name.decode(): value.decode() for name, value in fields}
        return FastAPIResponse(response.parts[0], response.status, headers)

    async def unheard(_request: FastAPIRequest, _error: Exception) -> FastAPIResponse:
        return FastAPIResponse(status_code=400)  # nobody is left to read it

    for kind in (RequestRefused, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(ClientDisconnected, unheard)


def as_refusal(error: Exception) -> RequestRefused:
    """The refusal that stands for any exception; an unforeseen one says nothing of itself."""
    match error:
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this path")
        case HTTPException(status_code=405):
            methods = {*(error.headers or {}).get("Allow", "").split(", ")}
            if "GET" in methods:
                methods.add("HEAD")
            allow = ", ".join(sorted(methods))
            return MethodNotAllowed(f"this path takes {allow}", allow=allow)
        case RequestValidationError():
            return InvalidDescriptor.of([Fault(tuple(e["loc"]), e["msg"]) for e in error.errors()])
    return refusal_for(error)
