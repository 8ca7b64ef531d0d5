"""Request heads: parsing, limits, and the framing of the body that follows. No I/O."""

from __future__ import annotations

import re
from http import HTTPMethod
from urllib.parse import unquote_to_bytes

import httptools

from tensor_round.contract.errors import HeadersTooLarge, RequestRefused, Unimplemented

from ..head import Header, MalformedRequest, host_of, join_repeated, split_target

#: Limits of one head: its size in bytes, and the number of its fields.
MAX_HEAD_BYTES = 32 << 10
MAX_HEAD_FIELDS = 100

#: Methods that every version of llhttp knows.
_PARSED: frozenset[str] = frozenset(HTTPMethod)

_END = b"\r\n\r\n"
#: The beginning of a head: a method, which is a token (RFC 9110, section 5.6.2), and a space.
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}(?: |\Z)")
#: Method, target, path, query and version; path and query only if the target needs no decoding.
#: llhttp accepts further versions, which this refuses.
_REQUEST_LINE = re.compile(rb"(\S+) ((/[^\s?#%]*)(?:\?([^\s#]*))?|\S+) HTTP/(1\.[01])\r\n")
#: Captures host and port of a target in absolute form (RFC 9112, section 3.2.2).
_NAMED = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#]*@)?([^/?#]*)")
_NONE: frozenset[bytes] = frozenset()


class RequestHead:
    """The request line and the fields of one request.

    See :class:`.Head`; ``length`` is None if the body is chunked.
    """

    __slots__ = (
        "authority",
        "fault",
        "fields",
        "keep_alive",
        "length",
        "method",
        "path",
        "query",
        "repeated",
        "target",
        "values",
        "version",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        version: str,
        fields: list[Header],
        path: str,
        query: bytes,
    ) -> None:
        self.method, self.target, self.version = method, target, version
        self.path, self.query = path, query
        self.fields = fields
        values = self.values = dict(fields)
        self.repeated = _NONE if len(values) == len(fields) else join_repeated(fields, values)
        self.authority = values.get(b"host")
        if target[:1] != b"/" and (named := _NAMED.match(target)):
            self.authority = named[1]  # it overrides Host (RFC 9112, section 3.2.2)
        self.fault: RequestRefused | None = None
        self.length: int | None = None
        coding = values.get(b"transfer-encoding")
        if coding is None:
            # llhttp has checked that there is one Content-Length, and that it is a number.
            self.length = int(values.get(b"content-length", b"0"))
        elif coding.lower() != b"chunked":
            self.fault = Unimplemented("Transfer-Encoding must be chunked")
        self.keep_alive = version == "1.1" and self.fault is None and method != "CONNECT"
        connection = values.get(b"connection")
        if connection is not None and b"close" in map(bytes.strip, connection.lower().split(b",")):
            self.keep_alive = False


class _Fields(list[Header]):
    """Collects the fields from the parser's callbacks."""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.append((name.lower(), value.strip(b" \t")))


def split_head(received: bytes) -> tuple[RequestHead, int] | None:
    """Parse the head at the start of ``received``; return it and its length in bytes.

    Returns None if the head is incomplete. The caller must have removed empty lines before the
    head (RFC 9112, section 2.2). Raises :class:`MalformedRequest` for bytes that cannot begin a
    head, and :class:`HeadersTooLarge` for an incomplete head over the limit.
    """
    end = received.find(_END)
    if end < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise _too_large()
        # A head with a bare LF never gets an end: all lines must end in CRLF.
        if not _METHOD.match(received) or received.count(b"\n") != received.count(b"\r\n"):
            raise MalformedRequest
        return None
    end += len(_END)
    line = _REQUEST_LINE.match(received)
    if line is None:
        raise MalformedRequest
    method, target, raw_path, query, version = line.groups()
    name, parsed = method.decode("latin-1"), received[:end]
    if name not in _PARSED:
        if not _METHOD.match(received):
            raise MalformedRequest
        # The gate refuses unknown ones. llhttp parses the rest behind a method that it knows.
        parsed = b"POST" + parsed[len(method) :]
    fields = _Fields()
    try:
        httptools.HttpRequestParser(fields).feed_data(parsed)
    except httptools.HttpParserUpgrade:
        pass  # Upgrade is ignored (RFC 9110, section 7.8)
    except httptools.HttpParserError:
        raise MalformedRequest from None
    if raw_path is None:
        path, query = _split(target, name)
    else:
        path, query = raw_path.decode("latin-1"), query or b""
    head = RequestHead(name, target, version.decode(), fields, path, query)
    if head.repeated and b"host" in head.repeated:  # RFC 9112, section 3.2
        raise MalformedRequest
    if head.version == "1.1":
        host = head.values.get(b"host")
        if host is None:
            raise MalformedRequest
        if host != head.authority and host_of(host.decode("latin-1")) is None:
            raise MalformedRequest
    elif b"transfer-encoding" in head.values:  # faulty framing (RFC 9112, section 6.1)
        raise MalformedRequest
    if end > MAX_HEAD_BYTES or len(fields) > MAX_HEAD_FIELDS:
        head.fault, head.keep_alive = _too_large(), False
    return head, end


def path_of(received: bytes) -> str:
    """The path in an incomplete or malformed head, as far as it was received."""
    _, _, rest = received.partition(b" ")
    return rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")


def _split(target: bytes, method: str) -> tuple[str, bytes]:
    """The decoded path of a request target, and its query."""
    if target.startswith(b"/"):
        return split_target(target)
    if method == "CONNECT":
        raw_path, query = target, b""
    else:
        try:
            url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            raise MalformedRequest from None
        raw_path, query = url.path or b"/", url.query or b""
    return unquote_to_bytes(raw_path).decode("utf-8", "replace"), query


def _too_large() -> HeadersTooLarge:
    return HeadersTooLarge(
        f"the head has more than {MAX_HEAD_BYTES} bytes or {MAX_HEAD_FIELDS} fields"
    )
