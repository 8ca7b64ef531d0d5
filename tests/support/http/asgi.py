"""One request to an application, without any server."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
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
    app: ASGIApp, method: str, path: str, headers: list[tuple[str, str]] | None = None
) -> Answer:
    """The answer to a request whose body nobody may ask for."""
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body was asked for")

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    asyncio.run(app(scope_of(method, path, headers or []), receive, send))  # type: ignore[arg-type]  # a coroutine, as every application's
    start, *rest = messages
    fields = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], fields, b"".join(m.get("body", b"") for m in rest))
