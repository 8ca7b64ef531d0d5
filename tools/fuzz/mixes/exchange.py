"""A request as it is sent, and what its answer has to be."""

from __future__ import annotations

import base64
import enum
import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: The whole service answers on loopback by this name.
HOST = "Host: localhost"


@dataclass(frozen=True)
class Answer:
    """A final answer; the names of its fields are in small letters."""

    status: int
    fields: dict[str, str]
    content: bytes

    @property
    def closes(self) -> bool:
        """Whether the service says that nothing follows."""
        return self.fields.get("connection", "").lower() == "close"

    def brief(self) -> str:
        """Status, fields and the first bytes, for a report."""
        return f"{self.status} {self.fields} {self.content[:60]!r} ({len(self.content)} bytes)"


#: Says what is wrong with an answer; None if nothing is.
Judge = Callable[[Answer], str | None]


class After(enum.Enum):
    """What may become of the connection behind the answer."""

    KEPT = "kept"
    #: The request was refused, and its body may be unread.
    EITHER = "either"
    CLOSED = "closed"


@dataclass(frozen=True)
class Request:
    """The bytes of a request, and the rules for its answer."""

    name: str
    wire: bytes
    #: Where its body begins.
    body_at: int
    judge: Judge
    after: After = After.KEPT
    method: str = "POST"
    #: Its own ``X-Request-ID``, which the answer repeats.
    own_id: str | None = None
    #: It may get ``100 Continue`` first.
    expects: bool = False
    #: It cannot be served, and nothing behind it: the answer before may end the connection.
    hopeless: bool = False
    #: An answer is not owed.
    optional: bool = False

    def complaint(self, answer: Answer) -> str | None:
        """What is wrong with the answer to it."""
        given = answer.fields.get("x-request-id")
        if self.own_id is not None and given != self.own_id:
            return f"the id of another request, {given!r}"
        return self.judge(answer)


def composed(
    chance: random.Random,
    name: str,
    target: str,
    body: bytes,
    fields: Sequence[str],
    judge: Judge,
    after: After = After.KEPT,
) -> Request:
    """A request with a body, framed and worded in one of the ways that mean the same."""
    method, _, path = target.partition(" ")
    lines = list(fields)
    version, expects = "1.1", False
    own_id = _own_id(chance)
    if own_id is not None:
        lines.append(f"X-Request-ID: {own_id}")
    if chance.random() < 0.06:
        lines += ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]
    chunked = chance.random() < 0.25
    if not chunked and chance.random() < 0.02:
        version, after = "1.0", After.CLOSED
    elif chance.random() < 0.02:
        lines.append("Connection: close")
        after = After.CLOSED
    if version == "1.1" and body and chance.random() < 0.05:
        expects = True
        lines.append("Expect: 100-continue")
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        content = in_chunks(chance, body)
    else:
        lines.append(f"Content-Length: {len(body)}")
        content = body
    chance.shuffle(lines)
    head = "\r\n".join((f"{method} {path} HTTP/{version}", HOST, *lines, "", "")).encode("latin-1")
    said = "".join(
        f" {word}"
        for word, is_so in (
            ("chunked", chunked),
            ("expecting", expects),
            ("HTTP/1.0", version == "1.0"),
            ("closing", after is After.CLOSED and version == "1.1"),
        )
        if is_so
    )
    return Request(
        f"{name}[{len(body)}]{said}",
        head + content,
        len(head),
        judge,
        after,
        method,
        own_id,
        expects,
    )


def bare(name: str, target: str, judge: Judge, *lines: str, after: After = After.KEPT) -> Request:
    """A request without a body."""
    wire = "\r\n".join((f"{target} HTTP/1.1", HOST, *lines, "", "")).encode()
    return Request(name, wire, len(wire), judge, after, target.partition(" ")[0])


def in_chunks(chance: random.Random, body: bytes) -> bytes:
    """The chunked coding of a body, with extensions and trailers here and there."""
    pieces = []
    most = chance.choice((1 if len(body) < 500 else 300, 1000, 20_000, 1 << 20))
    at = 0
    while at < len(body):
        piece = body[at : at + chance.randint(1, most)]
        extension = chance.choice((b"", b"", b"", b";a", b';name="a value"'))
        digits = chance.choice((b"%x", b"%X", b"0%x")) % len(piece)
        pieces.append(b"%b%b\r\n%b\r\n" % (digits, extension, piece))
        at += len(piece)
    trailers = chance.choice((b"", b"", b"X-Trailer: one\r\n", b"X-A: b\r\nX-C: d\r\n"))
    return b"".join((*pieces, b"0\r\n", trailers, b"\r\n"))


def _own_id(chance: random.Random) -> str | None:
    if chance.random() < 0.6:
        return None
    return f"id-{chance.getrandbits(chance.choice((8, 64, 256))):x}"


def digest_of(data: bytes) -> str:
    """A value of ``Content-Digest``."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def refusal(status: int, code: str | None) -> Judge:
    """The rule for a refusal; one of the Open Inference Protocol has no code."""

    def judge(answer: Answer) -> str | None:
        if answer.status != status:
            return f"status {answer.status}, not {status}"
        try:
            told = json.loads(answer.content)
        except ValueError:
            return "no JSON"
        if code is None:
            return None if list(told) == ["error"] else "no error of the Open Inference Protocol"
        if (told.get("code"), told.get("status")) != (code, status):
            return f"code {told.get('code')}, not {code}"
        return None if "x-request-id" in answer.fields else "no X-Request-ID"

    return judge
