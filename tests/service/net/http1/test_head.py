"""Heads of requests, whole or in pieces, and of responses, with the ids and policies in them."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.http.asgi import Answer, ask
from tensor_round.contract.errors import HeadersTooLarge, Unimplemented
from tensor_round_service.app import create_app
from tensor_round_service.net.head import (
    MalformedRequest,
    expects_continue,
    host_of,
    traceparent_of,
)
from tensor_round_service.net.http1.head import RequestHead, path_of, split_head
from tensor_round_service.net.response import (
    NO_STORE,
    FixedFields,
    Response,
    field_lines,
    head_bytes,
    of_type,
    request_id_field,
)
from tensor_round_service.settings import Settings

#: The limits of a head, as docs/security.md has them.
MAX_HEAD_BYTES, MAX_HEAD_FIELDS = 32 << 10, 100
TRAILING = b"GET /next HTTP/1.1\r\n\r\n\0\n"


@dataclass(frozen=True)
class Says:
    """What a head says."""

    method: str = "POST"
    path: str = "/p"
    query: bytes = b""
    version: str = "1.1"
    authority: bytes | None = b"h"
    length: int | None = 0
    keep_alive: bool = True
    expects_continue: bool = False


def head(fields: bytes = b"", line: bytes = b"POST /p HTTP/1.1", host: bytes = b"h") -> bytes:
    return line + b"\r\nHost: " + host + b"\r\n" + fields + b"\r\n"


def line(target: bytes, method: bytes = b"GET") -> bytes:
    return head(line=method + b" " + target + b" HTTP/1.1")


def many(count: int) -> bytes:
    """A head of so many fields."""
    return head(b"".join(b"a%d: %d\r\n" % (n, n) for n in range(count - 1)))


def long(nbytes: int) -> bytes:
    """A head of so many bytes."""
    return head(b"a: " + b"x" * (nbytes - len(head(b"a: \r\n"))) + b"\r\n")


SOUND: dict[str, tuple[bytes, Says]] = {
    "origin": (line(b"/a/b"), Says("GET", "/a/b")),
    "two-slashes": (line(b"//a/b"), Says("GET", "//a/b")),
    "absolute": (
        line(b"http://a.example:80/b?c=d"),
        Says("GET", "/b", b"c=d", authority=b"a.example:80"),
    ),
    "absolute-no-path": (line(b"http://a.example"), Says("GET", "/", authority=b"a.example")),
    "absolute-only-query": (
        line(b"http://a.example?b"),
        Says("GET", "/", b"b", authority=b"a.example"),
    ),
    "absolute-user": (line(b"http://u:p@a.example/"), Says("GET", "/", authority=b"a.example")),
    "absolute-ipv6": (line(b"http://[::1]:80/"), Says("GET", "/", authority=b"[::1]:80")),
    "absolute-encoded": (line(b"http://a/b%20c#d"), Says("GET", "/b c", authority=b"a")),
    "asterisk": (line(b"*", b"OPTIONS"), Says("OPTIONS", "*")),
    "connect": (
        line(b"a.example:443", b"CONNECT"),
        Says("CONNECT", "a.example:443", keep_alive=False),
    ),
    "encoded": (line(b"/%C3%A9/a%2Fb%20c%zz"), Says("GET", "/\xe9/a/b c%zz")),
    "encoded-not-utf-8": (line(b"/%ff"), Says("GET", "/\ufffd")),
    "query": (line(b"/p?a=%20&b=?"), Says("GET", "/p", b"a=%20&b=?")),
    "empty-query": (line(b"/p?"), Says("GET", "/p")),
    "fragment": (line(b"/p?a#b?c"), Says("GET", "/p", b"a")),
    "fragment-no-query": (line(b"/p#b?c"), Says("GET", "/p")),
    "no-fields": (
        b"POST /p HTTP/1.0\r\n\r\n",
        Says(version="1.0", authority=None, keep_alive=False),
    ),
    "http-1.0": (head(line=b"POST /p HTTP/1.0"), Says(version="1.0", keep_alive=False)),
    "http-1.0-keep-alive": (
        head(b"Connection: keep-alive\r\n", line=b"POST /p HTTP/1.0"),
        Says(version="1.0", keep_alive=False),
    ),
    "length": (head(b"Content-Length: 12\r\n"), Says(length=12)),
    "length-zeros": (head(b"content-length:0012 \t\r\n"), Says(length=12)),
    "length-longest": (head(b"Content-Length: %d\r\n" % (2**64 - 1)), Says(length=2**64 - 1)),
    "chunked": (head(b"Transfer-Encoding: chunked\r\n"), Says(length=None)),
    "chunked-by-any-case": (head(b"transfer-encoding:\tCHUNKED \r\n"), Says(length=None)),
    "close": (head(b"Connection: close\r\n"), Says(keep_alive=False)),
    "close-in-list": (head(b"Connection: te , Close,x\r\n"), Says(keep_alive=False)),
    "close-in-lines": (head(b"Connection: te\r\nConnection: close\r\n"), Says(keep_alive=False)),
    "close-in-a-word": (head(b"Connection: closed, not-close\r\n"), Says()),
    "expect": (head(b"Expect: 100-Continue\r\n"), Says(expects_continue=True)),
    "expect-of-1.0": (
        head(b"Expect: 100-continue\r\n", line=b"POST /p HTTP/1.0"),
        Says(version="1.0", keep_alive=False),
    ),
    "unknown-method": (
        head(b"Content-Length: 3\r\n", line=b"FETCH /p?q HTTP/1.1"),
        Says("FETCH", query=b"q", length=3),
    ),
    "unknown-method-chunked": (
        head(b"Transfer-Encoding: chunked\r\n", line=b"M-SEARCH /p HTTP/1.1"),
        Says("M-SEARCH", length=None),
    ),
    "method-in-lower-case": (line(b"/p", b"get"), Says("get")),
    "method-of-another-protocol": (line(b"*", b"DESCRIBE"), Says("DESCRIBE", "*")),
    "upgrade": (
        head(b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n"),
        Says(length=3),
    ),
    "most-fields": (many(MAX_HEAD_FIELDS), Says()),
    "longest": (long(MAX_HEAD_BYTES), Says()),
}
each_sound = pytest.mark.parametrize(("data", "says"), SOUND.values(), ids=SOUND)


def split(data: bytes) -> RequestHead:
    """The head that these bytes are, no more and no less."""
    found = split_head(data)
    assert found is not None
    assert found[1] == len(data)
    return found[0]


def facts(head: RequestHead) -> Says:
    return Says(
        method=head.method,
        path=head.path,
        query=head.query,
        version=head.version,
        authority=head.authority,
        length=head.length,
        keep_alive=head.keep_alive,
        expects_continue=expects_continue(head),
    )


@each_sound
@pytest.mark.parametrize("behind", [b"", TRAILING], ids=["alone", "followed"])
def test_a_sound_head(data: bytes, says: Says, behind: bytes) -> None:
    found = split_head(data + behind)
    assert found is not None
    head, end = found
    assert (facts(head), end) == (says, len(data))
    assert head.fault is None
    assert head.target == data.split(b" ")[1]


@each_sound
def test_no_part_of_a_head_is_one_or_refused(data: bytes, says: Says) -> None:
    step = 1 if len(data) < 4096 else 61
    for length in (*range(1, len(data), step), len(data) - 1):
        assert split_head(data[:length]) is None, data[:length]


def test_fields_keep_their_order_and_their_bytes() -> None:
    data = head(b"A-b:  \xe9\xff c\t \r\nempty:\r\nA-B: d\r\n!#$%&'*+-.^_`|~9: e: f\r\n")
    found = split(data)
    assert found.fields == [
        (b"host", b"h"),
        (b"a-b", b"\xe9\xff c"),
        (b"empty", b""),
        (b"a-b", b"d"),
        (b"!#$%&'*+-.^_`|~9", b"e: f"),
    ]
    assert found.values[b"a-b"] == b"\xe9\xff c, d"
    assert found.values[b"empty"] == b""
    assert found.repeated == {b"a-b"}


def test_lines_of_one_name_need_not_be_neighbours() -> None:
    found = split(head(b"a: 1\r\nb: 2\r\nA: 3\r\nc: 4\r\nb: 5\r\na: 1\r\n"))
    assert found.values == {b"host": b"h", b"a": b"1, 3, 1", b"b": b"2, 5", b"c": b"4"}
    assert found.repeated == {b"a", b"b"}
    assert split(many(50)).repeated == frozenset()


REFUSED: dict[str, bytes] = {
    "obs-fold": head(b"a: b\r\n c: d\r\n"),
    "obs-fold-first": b"GET / HTTP/1.1\r\n a: b\r\n\r\n",
    "nul-in-value": head(b"a: b\0\r\n"),
    "control-in-value": head(b"a: \x01\r\n"),
    "control-in-target": line(b"/\x01"),
    "carriage-return-in-value": head(b"a: b\rc: d\r\n"),
    "carriage-return-before-line-end": head(b"a: b\r\r\n"),
    "space-before-colon": head(b"a : b\r\n"),
    "no-colon": head(b"a\r\n"),
    "no-name": head(b": b\r\n"),
    "name-no-token": head(b"a(b): c\r\n"),
    "no-host": b"GET / HTTP/1.1\r\na: b\r\n\r\n",
    "no-host-but-in-the-target": b"GET http://h/ HTTP/1.1\r\n\r\n",
    "no-host-beside-one-in-the-target": head(line=b"GET http://h/ HTTP/1.1", host=b"a b"),
    "chunked-in-http-1.0": head(b"Transfer-Encoding: chunked\r\n", line=b"POST /p HTTP/1.0"),
    "two-hosts": head(b"HOST: i\r\n"),
    "two-lengths": head(b"Content-Length: 1\r\nContent-Length: 1\r\n"),
    "list-of-lengths": head(b"Content-Length: 1, 1\r\n"),
    "signed-length": head(b"Content-Length: +1\r\n"),
    "hexadecimal-length": head(b"Content-Length: 0x1\r\n"),
    "no-length": head(b"Content-Length:\r\n"),
    "vast-length": head(b"Content-Length: %d\r\n" % 2**64),
    "length-and-chunked": head(b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
    "chunked-and-length": head(b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"),
    "xchunked": head(b"Transfer-Encoding: xchunked\r\n"),
    "identity": head(b"Transfer-Encoding: identity\r\n"),
    "chunked-not-last": head(b"Transfer-Encoding: chunked, gzip\r\n"),
    "chunked-twice": head(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "http-0.9": b"GET /\r\n\r\n",
    "http-2.0": head(line=b"GET / HTTP/2.0"),
    "http-9.9": head(line=b"GET / HTTP/9.9"),
    "http-in-lower-case": head(line=b"GET / http/1.1"),
    "http-2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "other-protocol": head(line=b"DESCRIBE / RTSP/1.0"),
    "method-too-long": head(line=b"A" * 33 + b" / HTTP/1.1"),
    "method-no-utf-8": head(line=b"\xff / HTTP/1.1"),
    "unknown-method-and-faulty-length": head(b"Content-Length: x\r\n", line=b"FETCH / HTTP/1.1"),
    "no-method": head(line=b" / HTTP/1.1"),
    "no-target": head(line=b"GET  HTTP/1.1"),
    "two-spaces": head(line=b"GET  / HTTP/1.1"),
    "space-in-target": head(line=b"GET /a b HTTP/1.1"),
    "space-at-the-end": head(line=b"GET / HTTP/1.1 "),
    "target-of-bytes": line(b"/\xc3\xa9"),
    "target-relative": line(b"a"),
    "absolute-no-host": line(b"http:///a"),
    "absolute-no-port": line(b"http://a:b/"),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_malformed_head_is_refused(data: bytes) -> None:
    for received in (data, data + TRAILING):
        with pytest.raises(MalformedRequest):
            split_head(received)


EARLY: dict[str, bytes] = {
    "bare-line-feed-after-request-line": b"GET / HTTP/1.1\n",
    "bare-line-feed-in-request-line": b"GET\n",
    "bare-line-feed-after-field": b"GET / HTTP/1.1\r\nHost: h\n",
    "bare-line-feed-after-empty-field": b"GET / HTTP/1.1\r\nHost: h\r\n\n",
    "bare-line-feed-for-the-end": b"GET / HTTP/1.1\r\nHost: h\r\na: b\n\n",
    "method-no-token": b"G(T / HTTP/1.1\r\n",
    "method-too-long": b"A" * 33,
    "no-method-yet-a-space": b" ",
    "tls": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    "binary": bytes(range(128, 256)),
}


@pytest.mark.parametrize("data", EARLY.values(), ids=EARLY)
def test_malformed_head_is_refused_before_its_end(data: bytes) -> None:
    for rest in (b"", b"a", b"\r\n", b"\r\n\r\n", TRAILING):
        with pytest.raises(MalformedRequest):
            split_head(data + rest)


FAULTS: dict[str, tuple[bytes, type[Exception]]] = {
    "gzip-chunked": (head(b"Transfer-Encoding: gzip, chunked\r\n"), Unimplemented),
    "gzip-chunked-in-lines": (
        head(b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        Unimplemented,
    ),
    "too-many-fields": (many(MAX_HEAD_FIELDS + 1), HeadersTooLarge),
    "too-long": (long(MAX_HEAD_BYTES + 1), HeadersTooLarge),
}


@pytest.mark.parametrize(("data", "fault"), FAULTS.values(), ids=FAULTS)
def test_invalid_head_is_refused_on_any_path(data: bytes, fault: type[Exception]) -> None:
    found = split(data)
    assert type(found.fault) is fault
    assert (found.path, found.keep_alive) == ("/p", False)


HOSTS: dict[str, str | None] = {
    "": "", "a": "a", "A.Example.": "a.example", "a_b~!$&'()*+,;=%20:80": "a_b~!$&'()*+,;=%20",
    "127.0.0.1:65535": "127.0.0.1", "[::1]": "::1", "[FE80::1%25eth0]:": "fe80::1%25eth0",
    "a:000080": "a", "a:65536": None, "127.0.0.1:99999999": None, f"a:{'9' * 5000}": None,
    "a:b": None, "a:-1": None, "a:80:80": None, ":": "", "a b": None, "a/b": None, "http://a": None,
    "a@b": None, "a?b": None, "a#b": None, "a%zz": None, "a%2": None, "\xe9.example": None,
    "::1": None, "[::1": None, "[]": None, "[a.example]": None, "[127.0.0.1]": None,
    "[::1]a": None, "a, b": None, '"a"': None, "a\\b": None, "{a}": None,
}  # fmt: skip


@pytest.mark.parametrize("authority", HOSTS)
def test_host_of_an_authority(authority: str) -> None:
    assert host_of(authority) == HOSTS[authority]


def test_a_head_without_an_end_has_a_longest() -> None:
    data = long(MAX_HEAD_BYTES + 100)
    assert split_head(data[:MAX_HEAD_BYTES]) is None
    with pytest.raises(HeadersTooLarge):
        split_head(data[: MAX_HEAD_BYTES + 1])


@pytest.mark.parametrize(
    ("received", "path"),
    [
        (b"", ""),
        (b"GET", ""),
        (b"GET /v", "/v"),
        (b"GET /v2?a HTTP/1.1\r\nHost", "/v2"),
        (b"GET /\xff", "/\xff"),
    ],
)
def test_path_of_an_incomplete_head(received: bytes, path: str) -> None:
    assert path_of(received) == path


SHORT = [data for data in (*EARLY.values(), *REFUSED.values()) if len(data) < 500]
SHORT += [data for data, _ in SOUND.values() if len(data) < 500]


@given(st.sampled_from(SHORT), st.data())
def test_head_in_pieces_is_parsed_like_the_whole(data: bytes, drawn: st.DataObject) -> None:
    spoilt = bytearray(data)
    for _ in range(drawn.draw(st.integers(0, 3))):
        at = drawn.draw(st.integers(0, len(spoilt)))
        spoilt[at : at + 1] = drawn.draw(st.binary(max_size=3))
    whole = outcome(bytes(spoilt))
    parts = (outcome(bytes(spoilt[:length])) for length in range(1, len(spoilt)))
    assert next(filter(None, parts), whole) == whole


def outcome(received: bytes) -> object:
    """What a head says, and its length; that it is none; or that it is not whole."""
    try:
        found = split_head(received)
    except MalformedRequest:
        return "malformed"
    return None if found is None else (facts(found[0]), found[0].fields, found[1])


PARENT = f"00-{'0' * 31}1-{'0' * 15}1-00"
LATER = f"fe-{'f' * 32}-{'9' * 16}-ff"
LAWFUL = [PARENT, LATER, f"{LATER}-", f"{LATER}-what-\xe9ver"]
UNLAWFUL = [
    "",
    "00",
    PARENT.upper() + "-",
    PARENT[:-1],
    PARENT + "0",
    PARENT + "-00",
    PARENT.replace("1-", "0-", 1),
    PARENT.replace("1-00", "0-00"),
    "ff" + PARENT[2:],
    PARENT.replace("1", "A"),
    f"{PARENT}, {PARENT}",
    f"{LATER}0",
    f"{LATER}-a, {LATER}",
]


@pytest.mark.parametrize("value", [*LAWFUL, *UNLAWFUL])
def test_only_a_lawful_traceparent_counts(value: str) -> None:
    """A later version is read by the parts of this one (Trace Context, section 3.2.4)."""
    found = traceparent_of(split(head(f"Traceparent: {value}\r\n".encode())))
    assert found == (f"00{value[2:55]}" if value in LAWFUL else None)


def test_without_a_traceparent() -> None:
    assert traceparent_of(split(head())) is None
    assert traceparent_of(None) is None


FIXED = of_type("text/plain", (b"a", b"b"))
OWN: list[tuple[bytes, bytes]] = [(b"c", b"d"), (b"e", b"")]
COMMON = b"x: y\r\n"


LINES = b"content-type: text/plain\r\na: b\r\nx: y\r\nc: d\r\ne: \r\n"
LENGTH = b"content-length: 12\r\n"


@pytest.mark.parametrize(
    ("status", "close", "head"),
    [
        (200, False, b"HTTP/1.1 200 OK\r\n" + LINES + LENGTH + b"\r\n"),
        (404, True, b"HTTP/1.1 404 Not Found\r\n" + LINES + LENGTH + b"connection: close\r\n\r\n"),
        (304, False, b"HTTP/1.1 304 Not Modified\r\n" + LINES + b"\r\n"),
    ],
)
def test_a_head(status: int, close: bool, head: bytes) -> None:
    response = Response(status, FIXED, [b"twelve bytes"], OWN)
    assert head_bytes(response, 12, COMMON, close=close) == head


def test_a_new_response_is_no_refusal_and_has_no_owner() -> None:
    response = Response(200, FixedFields(), [], [])
    assert (response.code, response.owner, response.headers) == ("", None, [])
    assert head_bytes(response, 0, b"", close=False) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    )


def test_fields_are_lines() -> None:
    assert field_lines([(b"a", b"b"), NO_STORE]) == b"a: b\r\ncache-control: no-store\r\n"
    assert FIXED.fields == ((b"content-type", b"text/plain"), (b"a", b"b"))


def head_with_ids(*ids: str) -> RequestHead:
    lines = "".join(f"X-Request-ID: {each}\r\n" for each in ids)
    found = split_head(f"GET / HTTP/1.1\r\nHost: h\r\nother: {'o' * 9}\r\n{lines}\r\n".encode())
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("ids", "given"),
    [
        (["a"], b"a"),
        (["aZ09._~:@/+=-"], b"aZ09._~:@/+=-"),
        (["a" * 128], b"a" * 128),
        (["a", "b"], b"a"),
        (["a b", "c", "d"], b"c"),
        (["a" * 129, "b"], b"b"),
    ],
)
def test_the_id_of_a_request_is_given_back(ids: list[str], given: bytes) -> None:
    assert request_id_field(head_with_ids(*ids)) == (b"x-request-id", given)


@pytest.mark.parametrize("ids", [[], ["a b"], ["a" * 129], [""], ["a,b", "c d"]])
def test_a_request_without_a_sane_id_gets_one(ids: list[str]) -> None:
    (name, first), (_, second) = (request_id_field(head_with_ids(*ids)) for _ in range(2))
    assert name == b"x-request-id"
    assert re.fullmatch(rb"[0-9a-f]{16}-[0-9a-f]+", first)
    process, _, number = first.partition(b"-")
    assert second == b"%b-%x" % (process, int(number, 16) + 1)


@pytest.fixture(scope="module", params=["/", "/docs"])
def page(request: pytest.FixtureRequest) -> Answer:
    app = create_app(Settings(backend="numpy"))
    return ask(app, "GET", request.param, [("Accept", "text/html")])


def policy_of(headers: dict[str, str]) -> dict[str, list[str]]:
    parts = [part.split() for part in headers["content-security-policy"].split(";")]
    return {name: sources for name, *sources in parts}


def test_the_page_may_run_its_own_script_and_no_other(page: Answer) -> None:
    text = page.content.decode()
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    ]
    allowed = ["'self'", *(f"'sha256-{digest}'" for digest in digests)]
    assert policy_of(page.headers)["script-src"] == allowed


def test_nothing_else_comes_from_anywhere(page: Answer) -> None:
    policy = policy_of(page.headers)
    assert policy["default-src"] == ["'none'"]
    assert policy["connect-src"] == ["'self'"]
    for directive in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[directive] == ["'none'"]
    for name, sources in policy.items():
        allowed = {"'none'", "'self'"} | ({"data:"} if name == "img-src" else set())
        assert set(sources) <= allowed or name == "script-src"
    assert "unsafe" not in str(policy)
    assert page.headers["referrer-policy"] == "no-referrer"


def test_the_page_needs_nothing_that_it_may_not_have(page: Answer) -> None:
    text = page.content.decode()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text, re.I)
    # Relative: a proxy may add a path.
    assert not re.search(r"(src|href)=\"(/|[a-z]+:)", text, re.I)
