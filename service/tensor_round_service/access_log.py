"""The access log: a line for each request, without payloads, queries and keys."""

from __future__ import annotations

import logging

from .http1.head import traceparent_of
from .http1.request import Request
from .http1.response import REQUEST_ID, Response

logger = logging.getLogger(__name__)


def log_request(request: Request, response: Response) -> None:
    """Log a request and its response, before the response is sent."""
    head = request.head
    fields = {
        "method": head.method,
        "path": head.path,
        "status": response.status,
        "code": response.code or None,
        "received_bytes": request.received,
        "sent_bytes": sum(map(len, response.parts)),
        "client": request.client[0] if request.client else None,
        "request_id": dict(response.headers)[REQUEST_ID].decode(),
        "traceparent": traceparent_of(head),
    }
    extra = {name: value for name, value in fields.items() if value is not None}
    text = " ".join(f"{name}={value}" for name, value in list(extra.items())[2:])
    logger.info("%s %s %s", head.method, ascii(head.path)[1:-1], text, extra=extra)
