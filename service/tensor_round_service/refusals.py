"""Whatever goes wrong outside the tensor routes, in the form of the face it concerns."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tensor_round.errors import (
    Fault,
    InvalidDescriptor,
    MethodNotAllowed,
    NotFound,
    RequestRefused,
)

from .answers import Answer, refusal_answer
from .failures import refusal_for


def add_refusal_handlers(app: FastAPI) -> None:
    """Answer every error that reaches the framework in the form of its face."""

    async def refused(request: Request, error: Exception) -> Response:
        return _response(refusal_answer(request.url.path, as_refusal(error)))

    for kind in (RequestRefused, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, refused)


def as_refusal(error: Exception) -> RequestRefused:
    """The refusal that stands for any exception; an unforeseen one says nothing of itself."""
    match error:
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this path")
        case HTTPException(status_code=405):
            allow = (error.headers or {}).get("Allow", "")
            return MethodNotAllowed(f"this path takes {allow}", allow=allow)
        case RequestValidationError():
            return InvalidDescriptor.of([Fault(tuple(e["loc"]), e["msg"]) for e in error.errors()])
    return refusal_for(error)


def _response(answer: Answer) -> Response:
    return Response(
        b"".join(answer.parts),
        status_code=answer.status,
        media_type=answer.content_type,
        headers={name.decode(): value.decode() for name, value in answer.headers},
    )
