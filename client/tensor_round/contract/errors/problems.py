"""Problem documents (RFC 9457): made from refusals, and turned back into refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Fault
from .refusals import REFUSALS, RequestRefused, TensorTooLarge, UnknownRefusal

#: The service's page on the codes, as a relative URL reference.
ERRORS_PATH = "/docs/errors"


def problem(refusal: RequestRefused) -> dict[str, Any]:
    """The problem document of a refusal, as JSON values."""
    document = {
        "type": f"{ERRORS_PATH}#{refusal.code}",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        **refusal.extensions(),
    }
    if refusal.faults:
        document["errors"] = [{"loc": list(f.loc), "msg": f.msg} for f in refusal.faults]
    return document


def from_problem(
    document: Mapping[str, Any], *, status: int, retry_after: float | None = None
) -> RequestRefused:
    """The refusal of a problem document: the inverse of :func:`problem`.

    An unknown code, or a document of another form (a proxy's page, say), gives an
    :class:`UnknownRefusal` with the response's status.
    """
    detail = document.get("detail")
    code = document.get("code")
    common: dict[str, Any] = {"faults": _faults(document.get("errors")), "retry_after": retry_after}
    text = detail if isinstance(detail, str) else f"HTTP status {status}"
    kind = REFUSALS.get(code) if isinstance(code, str) else None
    if kind is None or kind.status != status:
        return UnknownRefusal(
            text, status=status, code=code if isinstance(code, str) else "", **common
        )
    if issubclass(kind, TensorTooLarge):
        limit, got = document.get("limit_bytes"), document.get("got_bytes")
        return kind(
            text,
            limit_bytes=limit if isinstance(limit, int) else 0,
            got_bytes=got if isinstance(got, int) else None,
            **common,
        )
    return kind(text, **common)


def _faults(errors: Any) -> tuple[Fault, ...]:
    if not isinstance(errors, list):
        return ()
    return tuple(
        Fault(tuple(p for p in e["loc"] if isinstance(p, str | int)), e["msg"])
        for e in errors
        if isinstance(e, dict) and isinstance(e.get("loc"), list) and isinstance(e.get("msg"), str)
    )
