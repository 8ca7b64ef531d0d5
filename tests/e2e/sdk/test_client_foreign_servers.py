"""What answers is no tensor-round service, or means no good: told plainly, and bounded."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

import numpy as np
import pytest

import tensor_round as tr
from support.clients import AnyClient, answered
from support.http.proxy import Fault, Proxy, answer

X = np.zeros(3, np.float32)


HTML, JSON = "Content-Type: text/html", "Content-Type: application/json"
FOREIGN = {
    "page": (answer("200 OK", b"<html>", HTML), '"text/html"'),
    "files": (answer("501 Unsupported method ('POST')", b"<html>", HTML), "HTTP status 501"),
    "framework": (answer("404 Not Found", b'{"detail":"Not Found"}', JSON), "HTTP status 404"),
    "moved": (
        answer("308 Permanent Redirect", b"", "Location: https://there.example/"),
        'HTTP status 308, to "https://there.example/"',
    ),
}


@pytest.mark.parametrize(("sent", "why"), FOREIGN.values(), ids=FOREIGN)
def test_answers_of_another_server(kind: type[AnyClient], sent: bytes, why: str) -> None:
    with Proxy(None, lambda _: Fault(answer=sent)) as proxy, kind(proxy.url, retries=0) as client:
        for call in (lambda: client.round(X), client.operators, client.ready):
            with pytest.raises((tr.UnknownRefusal, tr.ProtocolViolation)) as caught:
                call()
            assert caught.value.detail == str(caught.value)
            assert caught.value.detail.startswith(
                f"no tensor-round service answers at {proxy.url}: "
            )
            assert why in caught.value.detail


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
def test_a_gateway_before_a_service_is_not_taken_for_another(
    kind: type[AnyClient], status: int
) -> None:
    gateway = Fault(answer=answer(f"{status} No", b"<html>"))
    with answered(kind, gateway) as client, pytest.raises(tr.UnknownRefusal) as caught:
        client.round(X)
    assert str(caught.value) == f"HTTP status {status}"


PROBLEM = {"code": "overloaded", "detail": "no room", "status": 503, "errors": []}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_refusal_that_a_proxy_compressed(kind: type[AnyClient], coding: str) -> None:
    body = CODINGS[coding](json.dumps(PROBLEM).encode())
    headers = ("Content-Type: application/problem+json", f"Content-Encoding: {coding}")
    busy = Fault(answer=answer("503 Busy", body, *headers))
    with answered(kind, busy) as client, pytest.raises(tr.Overloaded, match="no room"):
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
    with answered(kind, Fault(answer=sent)) as client:
        client.ready()  # whatever is made once
        tracemalloc.start()
        try:
            with pytest.raises(tr.UnknownRefusal, match="HTTP status 503"):
                client.round(X)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 2 << 20
