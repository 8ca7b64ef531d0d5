"""What answers is no tensor-round service, or means no good: told plainly, and bounded."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensor_round as tr
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy

X = np.zeros(3, np.float32)


def answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def file_server() -> Iterator[str]:
    """Python's own server of files: there is something on the port, but no service."""
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_another_server(kind: type[AnyClient], file_server: str) -> None:
    told = f"no tensor-round service answers at {file_server}: HTTP status"
    with kind(file_server) as client:
        for call in (lambda: client.round(X), client.operators, client.ready):
            with pytest.raises(tr.UnknownRefusal) as caught:
                call()
            assert str(caught.value).startswith(told)
            assert caught.value.detail == str(caught.value)


JSON = "Content-Type: application/json"
FOREIGN = {
    "page": (answer("200 OK", b"<html>", "Content-Type: text/html"), '"text/html"'),
    "framework": (answer("404 Not Found", b'{"detail":"Not Found"}', JSON), "HTTP status 404"),
    "moved": (
        answer("308 Permanent Redirect", b"", "Location: https://there.example/"),
        'HTTP status 308, to "https://there.example/"',
    ),
}


@pytest.mark.parametrize(("sent", "why"), FOREIGN.values(), ids=FOREIGN)
def test_answers_of_another_server(kind: type[AnyClient], sent: bytes, why: str) -> None:
    with (
        Proxy(None, lambda _: Fault(answer=sent)) as proxy,
        kind(proxy.url, retries=0) as client,
        pytest.raises((tr.UnknownRefusal, tr.ProtocolViolation)) as caught,
    ):
        client.round(X)
    assert str(caught.value).startswith(f"no tensor-round service answers at {proxy.url}: ")
    assert why in str(caught.value)


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
def test_a_gateway_before_a_service_is_not_taken_for_another(
    kind: type[AnyClient], status: int
) -> None:
    with (
        Proxy(None, lambda _: Fault(answer=answer(f"{status} No", b"<html>"))) as proxy,
        kind(proxy.url, retries=0) as client,
        pytest.raises(tr.UnknownRefusal) as caught,
    ):
        client.round(X)
    assert str(caught.value) == f"HTTP status {status}"


PROBLEM = {"code": "overloaded", "detail": "no room", "status": 503, "errors": []}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_refusal_that_a_proxy_compressed(kind: type[AnyClient], coding: str) -> None:
    body = CODINGS[coding](json.dumps(PROBLEM).encode())
    headers = ("Content-Type: application/problem+json", f"Content-Encoding: {coding}")
    with (
        Proxy(None, lambda _: Fault(answer=answer("503 Busy", body, *headers))) as proxy,
        kind(proxy.url, retries=0) as client,
        pytest.raises(tr.Overloaded, match="no room"),
    ):
        client.round(X)


def many_faults() -> bytes:
    faults = [{"loc": ["a", 1], "msg": "b"}] * 120_000
    return json.dumps({**PROBLEM, "errors": faults}).encode()[: 4 << 20]


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip": (lambda: gzip.compress(b'{"detail":"' + bytes(64 << 20)), "gzip"),
    "gzip-of-faults": (lambda: gzip.compress(many_faults() * 8), "gzip"),
    "many-faults": (many_faults, "identity"),
    "long-detail": (lambda: b'{"detail":"' + b"x" * (32 << 20) + b'"}', "identity"),
    "no-gzip": (lambda: b"no gzip at all", "gzip"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_refusal_takes_much_memory(kind: type[AnyClient], name: str) -> None:
    make, coding = BOMBS[name]
    headers = ("Content-Type: application/problem+json", f"Content-Encoding: {coding}")
    sent = answer("503 Busy", make(), *headers)
    with (
        Proxy(None, lambda _: Fault(answer=sent)) as proxy,
        kind(proxy.url, retries=0) as client,
    ):
        client.ready()  # whatever is made once
        tracemalloc.start()
        try:
            with pytest.raises(tr.UnknownRefusal, match="HTTP status 503"):
                client.round(X)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 2 << 20
