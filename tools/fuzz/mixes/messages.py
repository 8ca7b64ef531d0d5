"""A request as it is sent, and what its response has to be."""

from __future__ import annotations

import base64
import enum
import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

#: A name that every service on loopback accepts.
HOST = "Host: localhost"


@dataclass(frozen=True)
class Response:
    """A final response; the names of its fields are in lower case."""

    status: int
    fields: dict[str, str]
    content: bytes

    @property
    def closes(self) -> bool:
        """Whether the service ends the connection behind it."""
        return self.fields.get("connection", "").lower() == "close"

    def brief(self) -> str:
        """Status, fields and the first bytes, for a report."""
        return f"{self.status} {self.fields} {self.content[:60]!r} ({len(self.content)} bytes)"


#: Says what is wrong with a response; None if nothing is.
Check = Callable[[Response], str | None]


class After(enum.Enum):
    """What may become of the connection behind the response."""

    KEPT = "kept"
    #: The request was refused, and its body may be unread.
    EITHER = "either"
    CLOSED = "closed"


@dataclass(frozen=True)
class Request:
    """The bytes of a request, and the rules for its response."""

    name: str
    wire: bytes
    #: Where its body begins.
    body_at: int
    check: Check
    after: After = After.KEPT
    method: str = "POST"
    #: Its own ``X-Request-ID``, which the response repeats.
    own_id: str | None = None
    #: It may get ``100 Continue`` first.
    expects: bool = False
    #: It cannot be served, nor what follows: the response before it may end the connection.
    unservable: bool = False
    #: There may be no response.
    optional: bool = False

    def complaint(self, response: Response) -> str | None:
        """What is wrong with the response to it; None if nothing is."""
        given = response.fields.get("x-request-id")
        if self.own_id is not None and given != self.own_id:
            return f"the id of another request, {given!r}"
        return self.check(response)


def composed(
    source: random.Random,
    name: str,
    target: str,
    body: bytes,
    fields: Sequence[str],
    check: Check,
    after: After = After.KEPT,
) -> Request:
    """A request with a body, framed in one of the ways that mean the same."""
    method, _, path = target.partition(" ")
    lines = list(fields)
    version, expects = "1.1", False
    own_id = _own_id(source)
    if own_id is not None:
        lines.append(f"X-Request-ID: {own_id}")
    if source.random() < 0.06:
        lines += ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]
    chunked = source.random() < 0.25
    if not chunked and source.random() < 0.02:
        version, after = "1.0", After.CLOSED
    elif source.random() < 0.02:
        lines.append("Connection: close")
        after = After.CLOSED
    if version == "1.1" and body and source.random() < 0.05:
        expects = True
        lines.append("Expect: 100-continue")
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        content = in_chunks(source, body)
    else:
        lines.append(f"Content-Length: {len(body)}")
        content = body
    source.shuffle(lines)
    head = "\r\n".join((f"{method} {path} HTTP/{version}", HOST, *lines, "", "")).encode("latin-1")
    variants = "".join(
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
        f"{name}[{len(body)}]{variants}",
        head + content,
        len(head),
        check,
        after,
        method,
        own_id,
        expects,
    )


def bare(name: str, target: str, check: Check, *lines: str, after: After = After.KEPT) -> Request:
    """A request without a body."""
    wire = "\r\n".join((f"{target} HTTP/1.1", HOST, *lines, "", "")).encode()
    return Request(name, wire, len(wire), check, after, target.partition(" ")[0])


def in_chunks(source: random.Random, body: bytes) -> bytes:
    """The chunked coding of a body, with extensions and trailers here and there."""
    pieces = []
    most = source.choice((1 if len(body) < 500 else 300, 1000, 20_000, 1 << 20))
    at = 0
    while at < len(body):
        piece = body[at : at + source.randint(1, most)]
        extension = source.choice((b"", b"", b"", b";a", b';name="a value"'))
        digits = source.choice((b"%x", b"%X", b"0%x")) % len(piece)
        pieces.append(b"%b%b\r\n%b\r\n" % (digits, extension, piece))
        at += len(piece)
    trailers = source.choice((b"", b"", b"X-Trailer: one\r\n", b"X-A: b\r\nX-C: d\r\n"))
    return b"".join((*pieces, b"0\r\n", trailers, b"\r\n"))


def _own_id(source: random.Random) -> str | None:
    if source.random() < 0.6:
        return None
    return f"id-{source.getrandbits(source.choice((8, 64, 256))):x}"


def digest_of(data: bytes) -> str:
    """A value of ``Content-Digest``."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def not_ok(response: Response) -> str | None:
    """What is wrong with its status, which must be 200."""
    return None if response.status == 200 else f"status {response.status}, not 200"


def refusal(status: int, code: str | None, *, parsed: bool = True) -> Check:
    """The rule for a refusal; /v2 has no codes, and only a ``parsed`` head has a request ID."""

    def check(response: Response) -> str | None:
        if response.status != status:
            return f"status {response.status}, not {status}"
        try:
            problem = json.loads(response.content)
        except ValueError:
            return "no JSON"
        if code is None:
            return None if list(problem) == ["error"] else "no error of the Open Inference Protocol"
        if (problem.get("code"), problem.get("status")) != (code, status):
            return f"code {problem.get('code')}, not {code}"
        is_identified = "x-request-id" in response.fields or not parsed
        return None if is_identified else "no X-Request-ID"

    return check


class Fault(Exception):
    """A broken rule: its kind, and how."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class ResponseReader:
    """The responses on one connection, in order; each is checked as soon as it is complete."""

    requests: list[Request]
    statuses: list[int] = field(default_factory=list)
    #: The next response's request has had ``100 Continue``.
    continued: bool = False
    #: Nothing may follow.
    closed: bool = False
    #: The last request is incomplete, and may be refused for that.
    incomplete: bool = False
    #: The sender half-closes behind the last request, so the last response may end the connection.
    half_closed: bool = False
    _buffer: bytearray = field(default_factory=bytearray)

    @property
    def complete(self) -> int:
        return len(self.statuses)

    @property
    def owed(self) -> int:
        """How many responses must still come."""
        if self.closed:
            return 0
        return sum(not request.optional for request in self.requests[self.complete :])

    @property
    def is_partial(self) -> bool:
        """Whether a response has begun and is not complete."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """Check what has come."""
        self._buffer += data
        while self._buffer:
            if self.closed or self.complete == len(self.requests):
                raise Fault("extra", f"more than the responses: {bytes(self._buffer[:300])!r}")
            if not self._one():
                return

    def _one(self) -> bool:
        request = self.requests[self.complete]
        found = read(self._buffer, has_content=request.method != "HEAD")
        if found is None:
            return False
        response, end = found
        del self._buffer[:end]
        if response.status >= 200:
            self._check(request, response)
            return True
        is_expected = request.expects and not self.continued
        # A service at work may ask a caller that has stopped sending whether it still reads.
        if response.status != 100 or not (is_expected or self.half_closed):
            raise Fault("interim", f"{self._which()}: interim status {response.status}")
        self.continued = True
        return True

    def _check(self, request: Request, response: Response) -> None:
        wrong = request.complaint(response)
        if wrong and not (self.incomplete and response.status in (400, 408, 503)):
            raise Fault("wrong", f"{self._which()}: {wrong}; {response.brief()}")
        if response.closes and request.after is After.KEPT and not self._may_end():
            raise Fault("closed early", f"{self._which()}: Connection: close; {response.brief()}")
        self.statuses.append(response.status)
        self.continued = False
        self.closed = response.closes or request.after is After.CLOSED

    def _may_end(self) -> bool:
        """Whether a connection that is kept may end with the next response all the same."""
        following = self.requests[self.complete + 1 :]
        return self.incomplete or (following[0].unservable if following else self.half_closed)

    def _which(self) -> str:
        request = self.requests[self.complete]
        return f"request {self.complete + 1} of {len(self.requests)}, {request.name}"

    def missing(self) -> str:
        """Where the responses stopped."""
        return f"{self._which()} (the {'rest' if self.is_partial else 'start'} of its response)"


def read(
    received: bytes | bytearray, *, has_content: bool = True, is_over: bool = False
) -> tuple[Response, int] | None:
    """The first response in what was received, and where it ends; None if it is incomplete.

    Where the connection ``is_over``, its content may be cut off.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if not b"HTTP/1.1 ".startswith(received[:9]):
            raise Fault("no HTTP", f"no response: {bytes(received[:300])!r}")
        return None
    first, *lines = bytes(received[:end]).decode("latin-1").split("\r\n")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in fields:
            raise Fault("no HTTP", f"the field {name} twice")
        fields[name] = value.strip()
    if not first.startswith("HTTP/1.1 ") or not first[9:12].isdigit():
        raise Fault("no HTTP", f"no status line: {first[:100]!r}")
    status, begin = int(first[9:12]), end + 4
    if status >= 200 and ("transfer-encoding" in fields or "content-length" not in fields):
        raise Fault("no HTTP", f"no length: {status} {fields}")
    length = int(fields.get("content-length", 0)) if has_content else 0
    content = bytes(received[begin : begin + length])
    if len(content) < length and not is_over:
        return None
    return Response(status, fields, content), begin + length
