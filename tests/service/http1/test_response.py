"""Responses: their serialized heads, and the ids of requests in them."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from support.http.asgi import Answer, ask
from tensor_round_service.app import create_app
from tensor_round_service.http1.head import RequestHead, split_head
from tensor_round_service.http1.response import (
    NO_STORE,
    FixedFields,
    Response,
    field_lines,
    head_bytes,
    of_type,
    request_id_field,
)
from tensor_round_service.settings import Settings

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


def head(*ids: str) -> RequestHead:
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
    assert request_id_field(head(*ids)) == (b"x-request-id", given)


@pytest.mark.parametrize("ids", [[], ["a b"], ["a" * 129], [""], ["a,b", "c d"]])
def test_a_request_without_a_sane_id_gets_one(ids: list[str]) -> None:
    (name, first), (_, second) = (request_id_field(head(*ids)) for _ in range(2))
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
