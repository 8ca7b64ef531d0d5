"""One request to an application, without any server."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp


@dataclass(frozen=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: dict[str, str]
    content: bytes


def scope_of(method: str, path: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
    """A request as an ASGI server hands it on."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }


def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: list[tuple[str, str]] | None = None,
    pieces: Sequence[bytes | None] = (),
) -> Answer:
    """The answer to a request whose body comes in these pieces; without any, nobody may ask for it.

    None in them is the caller hanging up. Without an answer the status is 0.
    """
    last = len(pieces) - 1
    body = iter(
        {"type": "http.disconnect"}
        if piece is None
        else {"type": "http.request", "body": piece, "more_body": position < last}
        for position, piece in enumerate(pieces)
    )
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return next(body)

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    asyncio.run(app(scope_of(method, path, headers or []), receive, send))  # type: ignore[arg-type]  # a coroutine, as every application's
    if not messages:
        return Answer(0, {}, b"")
    start, *rest = messages
    fields = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], fields, b"".join(m.get("body", b"") for m in rest))
