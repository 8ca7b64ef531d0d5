"""Refusals as responses, in the form of their paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from fastapi import FastAPI
from fastapi import Request as FastAPIRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response as FastAPIResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    MethodNotAllowed,
    NotFound,
    RequestRefused,
    UnsupportedEncoding,
    UnsupportedMediaType,
    problem,
)
from tensor_round.contract.operators.model import LISTED_FAULTS
from tensor_round.contract.wire import http_fields

from .failures import FAILED, NO_MEMORY, refusal_for
from .net.bodies import ClientDisconnected
from .net.codings import CODINGS
from .net.head import Header, MalformedRequest
from .net.response import NO_STORE, Response, field_name, of_type

_RETRY_AFTER = field_name(http_fields.RETRY_AFTER)
#: What to send instead (RFC 9110, section 15.5.16).
_ACCEPT_ENCODING: Header = (field_name(http_fields.ACCEPT_ENCODING), ", ".join(CODINGS).encode())
_ACCEPT: Header = (b"accept", ", ".join(http_fields.TYPES).encode())
_PLAIN_TEXT = of_type("text/plain; charset=utf-8")
#: Of bytes that are not HTTP/1.1, in metrics and the log: their refusal is no document.
MALFORMED = "malformed_http"


#: Status, media type and content of a refusal of a request with this ``traceparent``.
ErrorForm = Callable[[RequestRefused, str | None], tuple[int, str, bytes]]


def problem_document(refusal: RequestRefused, traceparent: str | None) -> tuple[int, str, bytes]:
    """A refusal as a problem document (RFC 9457)."""
    traced = {} if traceparent is None else {"traceparent": traceparent}
    content = json.dumps({**problem(refusal), **traced}).encode()
    return refusal.status, http_fields.PROBLEM_JSON, content


class Refusals:
    """Refusals as responses. ``forms`` are by folder; other paths have problem documents."""

    def __init__(self, forms: Mapping[str, ErrorForm]) -> None:
        self._forms = forms

    def form_of(self, path: str) -> ErrorForm:
        """The form of the errors on a path."""
        for folder, form in self._forms.items():
            if path == folder or path.startswith(f"{folder}/"):
                return form
        return problem_document

    def response_to(
        self, path: str, error: Exception, traceparent: str | None = None, request_id: str = ""
    ) -> Response:
        """The refusal for any exception; what is unexpected is logged with the request's id."""
        if isinstance(error, MalformedRequest):
            response = Response(400, _PLAIN_TEXT, [b"Invalid HTTP request received."], [])
            response.code = MALFORMED
            return response
        return in_form(self.form_of(path), refusal_for(error, request_id), traceparent)

    def preallocated(self) -> dict[tuple[ErrorForm, str], Response]:
        """Responses to failures for which there is no memory, by form and code."""
        return {
            (form, refusal.code): in_form(form, refusal)
            for form in (problem_document, *self._forms.values())
            for refusal in (NO_MEMORY, FAILED)
        }


def in_form(form: ErrorForm, refusal: RequestRefused, traceparent: str | None = None) -> Response:
    """The response of a refusal."""
    status, media_type, content = form(refusal, traceparent)
    response = Response(status, of_type(media_type), [content], _headers(refusal))
    response.code = refusal.code
    return response


def _headers(refusal: RequestRefused) -> list[Header]:
    headers: list[Header] = []
    if refusal.retry_after is not None:
        headers.append((_RETRY_AFTER, str(max(1, round(refusal.retry_after))).encode()))
    if refusal.status == 401:
        headers += [(b"www-authenticate", b'Bearer realm="tensor-round"'), NO_STORE]
    match refusal:
        case MethodNotAllowed():
            headers.append((b"allow", refusal.allow.encode()))
        case UnsupportedEncoding():
            headers.append(_ACCEPT_ENCODING)
        case UnsupportedMediaType():
            headers.append(_ACCEPT)
    return headers


def add_refusal_handlers(app: FastAPI, refusals: Refusals) -> None:
    """Install handlers that turn every exception in FastAPI into a refusal."""

    async def refused(request: FastAPIRequest, error: Exception) -> FastAPIResponse:
        refusal = _as_refusal(error, request)
        if isinstance(refusal, NotFound) and request.url.path.endswith("/"):
            # The dispatcher ignores one trailing slash of GET, but none of POST.
            refusal = NotFound(f"{refusal.detail}; try the path without its trailing slash")
        if request.method == "OPTIONS" and isinstance(refusal, MethodNotAllowed):
            # RFC 9110, section 9.3.7. Load balancers use OPTIONS as a probe.
            return FastAPIResponse(headers={"Allow": f"{refusal.allow}, OPTIONS"})
        traceparent = getattr(request.state, "traceparent", None)
        response = in_form(refusals.form_of(request.url.path), refusal, traceparent)
        request.state.code = refusal.code  # respond_by_asgi reads it
        fields = (*response.fixed.fields, *response.headers)
        headers = {name.decode(): value.decode() for name, value in fields}
        return FastAPIResponse(response.parts[0], response.status, headers)

    async def disconnected(_request: FastAPIRequest, _error: Exception) -> FastAPIResponse:
        return FastAPIResponse(status_code=400)  # it is never sent

    for kind in (RequestRefused, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(ClientDisconnected, disconnected)


def _as_refusal(error: Exception, request: FastAPIRequest) -> RequestRefused:
    """The refusal for any exception, FastAPI's included."""
    match error:
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this path")
        case HTTPException(status_code=405):
            # Its Allow has the methods of the first route alone.
            allow = ", ".join(sorted(_methods(request)))
            return MethodNotAllowed(f"this path allows {allow}", allow=allow)
        case RequestValidationError():
            found = error.errors()[:LISTED_FAULTS]
            return InvalidDescriptor.of([Fault(tuple(e["loc"]), e["msg"]) for e in found])
    return refusal_for(error)


def _methods(request: FastAPIRequest) -> set[str]:
    """The methods of all routes with the path of a request."""
    routes = (route for route in request.app.routes if isinstance(route, Route))
    found = [route.methods for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for some in found for method in some or ()}
    return methods | {"HEAD"} if "GET" in methods else methods
