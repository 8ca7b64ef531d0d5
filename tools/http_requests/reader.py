"""Reads the responses on one connection, and checks each by the rules of its request."""

from __future__ import annotations

from dataclasses import dataclass, field

from .message import After, Request, Response


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
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if not b"HTTP/1.1 ".startswith(self._buffer[:9]):
                raise Fault("no HTTP", f"no response: {bytes(self._buffer[:300])!r}")
            return False
        request = self.requests[self.complete]
        status, fields = _parsed(bytes(self._buffer[:end]))
        if status < 200:
            is_expected = request.expects and not self.continued
            # A service at work may ask who has stopped sending whether it still reads.
            if status != 100 or not (is_expected or self.half_closed):
                raise Fault("interim", f"{self._which()}: interim status {status}")
            self.continued = True
            del self._buffer[: end + 4]
            return True
        content = self._content(request, status, fields, end + 4)
        if content is None:
            return False
        self._check(request, Response(status, fields, content))
        return True

    def _content(
        self, request: Request, status: int, fields: dict[str, str], begin: int
    ) -> bytes | None:
        """The content, taken off the buffer, if it is complete."""
        if "transfer-encoding" in fields or "content-length" not in fields:
            raise Fault("no HTTP", f"{self._which()}: no length: {status} {fields}")
        length = 0 if request.method == "HEAD" else int(fields["content-length"])
        if len(self._buffer) < begin + length:
            return None
        content = bytes(self._buffer[begin : begin + length])
        del self._buffer[: begin + length]
        return content

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


def _parsed(text: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = text.decode("latin-1").split("\r\n")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in fields:
            raise Fault("no HTTP", f"the field {name} twice")
        fields[name] = value.strip()
    if not first.startswith("HTTP/1.1 ") or not first[9:12].isdigit():
        raise Fault("no HTTP", f"no status line: {first[:100]!r}")
    return int(first[9:12]), fields
