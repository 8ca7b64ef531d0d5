"""The access log: a line for each request, without payloads, queries and keys."""

from __future__ import annotations

import logging
from dataclasses import dataclass

_ACCESS = logging.getLogger("tensor_round_service.access_log")


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that is over, and what became of it, whatever has brought it."""

    #: None if the request was not understood, or is incomplete.
    method: str | None
    path: str
    #: Of the response; :data:`.gate.ABANDONED` has that of a caller that left before it.
    status: str
    #: Of a refusal, else empty.
    code: str
    #: Bytes of the request's body that have come; without a head, those of the head.
    received: int
    #: Bytes of the response's body.
    sent: int
    #: From the first byte of an incomplete head, or else from the end of the head.
    seconds: float
    #: The caller's IP address; None on a Unix socket.
    client: str | None
    request_id: str | None
    traceparent: str | None


def log(entry: Entry) -> None:
    """Log an entry: in text after its method and path, else as fields."""
    fields = {
        "status": int(entry.status),
        "code": entry.code or None,
        "received_bytes": entry.received,
        "sent_bytes": entry.sent,
        "duration_ms": round(entry.seconds * 1e3, 3),
        "client": entry.client,
        "request_id": entry.request_id,
        "traceparent": entry.traceparent,
    }
    told = {name: value for name, value in fields.items() if value is not None}
    # No space: it separates the fields.
    shown = ascii(entry.path)[1:-1].replace(" ", "\\x20")
    text = "".join(f" {name}={value}" for name, value in told.items())
    extra = {"event": "request", "method": entry.method, "path": entry.path, **told}
    _ACCESS.info("%s %s%s", entry.method or "-", shown, text, extra=extra)
