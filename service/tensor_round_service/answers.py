"""Answers as plain ASGI messages, without a copy of the payload."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensor_round.errors import MethodNotAllowed, RequestRefused, problem
from tensor_round.wire import native, oip_answer

from .buffers import Lease
from .direct import DirectExchange, Header

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def field_name(name: str) -> bytes:
    """A header's name as ASGI has it."""
    return name.lower().encode("ascii")


_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_CONTENT_LENGTH = field_name(native.CONTENT_LENGTH)
_RETRY_AFTER = field_name(native.RETRY_AFTER)


#: Takes on a request by what has come of its body, in a lease of its own: memory for the rest,
#: and what makes the answer once that is there, without waiting for anything, or raises the
#: refusal that it is given. None if the request is of another kind.
Finish = Callable[[RequestRefused | None], "Answer"]
Again = Callable[[memoryview, Lease], tuple[memoryview, Finish] | None]


@dataclass(slots=True)
class Answer:
    """A whole answer: its parts go out one after another, as they lie in memory.

    ``again`` may take on another request with the same head.
    """

    content_type: str
    parts: Sequence[bytes | memoryview]
    status: int = 200
    headers: list[Header] = field(default_factory=list)
    again: Again | None = None

    @property
    def nbytes(self) -> int:
        """The length of its body."""
        return sum(map(len, self.parts))

    def fields(self) -> list[Header]:
        """All its header fields."""
        return [
            (_CONTENT_TYPE, self.content_type.encode()),
            (_CONTENT_LENGTH, b"%d" % self.nbytes),
            *self.headers,
        ]

    async def send(self, send: Send, exchange: DirectExchange | None = None) -> bool:
        """Send it; whether nothing refers to the parts' memory any more on return."""
        headers = self.fields()
        if exchange is not None:
            await exchange.respond(self.status, headers, self.parts)
            return True
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        *early, last = self.parts
        for part in early:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": last, "more_body": False})
        # A server may keep what it could not send yet.
        return False


class LastWords(Answer):
    """An answer made beforehand, for when no other can be made any more."""

    __slots__ = ("_fields",)

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.content_type, answer.parts, answer.status)
        self._fields = answer.fields()

    def fields(self) -> list[Header]:
        """Those that it had when it was made."""
        return self._fields


def problem_answer(refusal: RequestRefused) -> Answer:
    """A refusal as application/problem+json (RFC 9457)."""
    return Answer(
        native.PROBLEM_JSON,
        [json.dumps(problem(refusal)).encode()],
        status=refusal.status,
        headers=refusal_headers(refusal),
    )


def error_answer(refusal: RequestRefused) -> Answer:
    """A refusal as the Open Inference Protocol has it: one line of text.

    What is wrong in a request is 400 there, whichever rule it breaks.
    """
    return Answer(
        native.JSON,
        [oip_answer.write_error(refusal.detail)],
        status=400 if refusal.status == 422 else refusal.status,
        headers=refusal_headers(refusal),
    )


def refusal_answer(path: str, refusal: RequestRefused) -> Answer:
    """A refusal in the form of the face that a path belongs to."""
    if path == "/v2" or path.startswith("/v2/"):
        return error_answer(refusal)
    return problem_answer(refusal)


def refusal_headers(refusal: RequestRefused) -> list[Header]:
    """The headers that belong to a refusal, whichever face it is shown by."""
    headers: list[Header] = []
    if refusal.retry_after is not None:
        headers.append((_RETRY_AFTER, str(max(1, round(refusal.retry_after))).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="tensor-round"'))
    if isinstance(refusal, MethodNotAllowed):
        headers.append((b"allow", refusal.allow.encode()))
    return headers
