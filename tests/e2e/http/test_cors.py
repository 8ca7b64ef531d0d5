"""What pages of the origins in CORS_ORIGINS may read and ask for, and no other page."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.inference_form import infer_path
from support.http.native_form import ieee754
from support.segments import PREFIX
from support.services.server import Reply, Service
from tensor_round_service.http1.head import MAX_HEAD_BYTES

PAGE = "https://app.example"
OTHER = "http://localhost:5173"
FOREIGN = ["https://evil.example", "https://app.example.evil", "http://app.example", "null", ""]
KEY = "s3cret-of-alice"
X = np.array([0.5, 1.5, -2.5], "<f4")
OCTETS = {"Operator-Descriptor": ieee754("float32", [3])}
CHANGE = "/v2/systemsharedmemory/unregister"
CORS_FIELDS = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    keys: Path = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{hashlib.sha256(KEY.encode()).hexdigest()} alice\n")
    with Service(
        *("--cors-origins", f"{PAGE}, {OTHER}", "--api-keys-file", str(keys)),
        *("--shared-memory-prefix", PREFIX, "--receive-timeout", "1"),
    ) as running:
        yield running


def with_key(origin: str | None, **fields: str) -> dict[str, str]:
    return {"X-API-Key": KEY, **({} if origin is None else {"Origin": origin}), **fields}


def names(value: str | None) -> set[str]:
    return {name.strip().lower() for name in (value or "").split(",")}


def is_readable(reply: Reply, origin: str = PAGE) -> bool:
    """Whether a browser gives it to a page of that origin."""
    assert reply.headers.get_all("Vary") == ["Origin"]
    allowed = reply.headers.get_all("Access-Control-Allow-Origin") or []
    assert len(allowed) <= 1
    return allowed == [origin]


def preflight(service: Service, path: str, origin: str) -> Reply:
    asked = "content-type,operator-descriptor,x-api-key"
    fields = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": asked,
    }
    return service.request("OPTIONS", path, headers=fields)


@pytest.mark.parametrize("origin", [PAGE, OTHER])
@pytest.mark.parametrize("path", ["/round", infer_path("round"), "/operators", CHANGE])
def test_a_preflight_needs_no_key(service: Service, path: str, origin: str) -> None:
    reply = preflight(service, path, origin)
    assert (reply.status, reply.content) == (200, b"")
    assert is_readable(reply, origin)
    assert names(reply.headers["Access-Control-Allow-Methods"]) == {"get", "head", "post"}
    assert int(reply.headers["Access-Control-Max-Age"]) > 0
    assert reply.headers["Access-Control-Allow-Credentials"] is None
    assert names(reply.headers["Access-Control-Allow-Headers"]) >= {
        *("operator-descriptor", "content-type", "content-encoding", "content-digest"),
        *("want-content-digest", "authorization", "x-api-key", "x-request-id"),
        *("inference-header-content-length", "traceparent"),
    }


@pytest.mark.parametrize("origin", FOREIGN)
def test_another_origin_gets_no_preflight(service: Service, origin: str) -> None:
    reply = preflight(service, "/round", origin)
    assert reply.status == 401
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_a_page_may_read_a_result_and_its_fields(service: Service) -> None:
    reply = service.request("POST", "/round", X.tobytes(), with_key(PAGE, **OCTETS))
    assert (reply.status, reply.content) == (200, np.rint(X).tobytes())
    assert is_readable(reply)
    exposed = names(reply.headers["Access-Control-Expose-Headers"])
    assert exposed >= {
        *("output-descriptor", "execution-backend", "server-timing", "x-request-id"),
        *("content-digest", "retry-after"),
    }
    assert service.request("GET", "/operators", headers=with_key(OTHER)).status == 200


def refusals(service: Service, origin: str) -> Iterator[tuple[int, Reply]]:
    """Refusals of each part of the service."""
    key = with_key(origin)
    yield 401, service.request("POST", "/round", X.tobytes(), {"Origin": origin, **OCTETS})
    yield 404, service.request("GET", "/nowhere", headers=key)
    yield 405, service.request("GET", "/round", headers=key)
    yield 400, service.request("POST", "/round", X.tobytes()[:-1], {**key, **OCTETS})
    yield 421, service.request("GET", "/operators", headers={**key, "Host": "evil.example"})
    yield 400, service.request("POST", infer_path("round"), b"{", key)
    large = {f"X-{number}": "x" * 1000 for number in range(MAX_HEAD_BYTES // 1000 + 1)}
    yield 431, service.request("GET", "/operators", headers={**key, **large})
    with contextlib.closing(service.connect()) as plug:
        head = "".join(f"{name}: {value}\r\n" for name, value in {**key, **OCTETS}.items())
        plug.sendall(
            f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n{head}\r\n".encode()
        )
        yield 408, reply_on(plug)


def reply_on(plug: socket.socket) -> Reply:
    response = http.client.HTTPResponse(plug)
    response.begin()
    return Reply(response.status, response.headers, response.read())


def test_a_page_may_read_why_it_is_refused(service: Service) -> None:
    for status, reply in refusals(service, PAGE):
        assert reply.status == status
        assert is_readable(reply)
        assert "retry-after" in names(reply.headers["Access-Control-Expose-Headers"])


@pytest.mark.parametrize("origin", FOREIGN)
def test_no_other_origin_may(service: Service, origin: str) -> None:
    for status, reply in refusals(service, origin):
        assert reply.status == status
        assert not is_readable(reply, origin)
        assert not any(name in reply.headers for name in CORS_FIELDS)


def test_a_listed_origin_may_ask_for_a_change(service: Service) -> None:
    assert service.request("POST", CHANGE, b"", with_key(PAGE)).status == 200
    for origin in FOREIGN:
        assert service.request("POST", CHANGE, b"", with_key(origin)).status == 403
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 12}
    tensor = {"name": "X", "datatype": "FP32", "shape": [3], "parameters": region}
    body = json.dumps({"inputs": [tensor]}).encode()
    path = infer_path("round")
    assert service.request("POST", path, body, with_key(FOREIGN[0])).status == 403
    assert service.request("POST", path, body, with_key(PAGE)).status == 404  # no such region


def test_requests_without_an_origin_are_as_before(service: Service) -> None:
    reply = service.request("POST", "/round", X.tobytes(), with_key(None, **OCTETS))
    assert reply.status == 200
    assert reply.headers["Vary"] == "Origin"  # it may be kept for a page
    assert not any(name in reply.headers for name in CORS_FIELDS)


def test_unset_there_is_none_of_it() -> None:
    with Service() as service:
        assert preflight(service, "/round", PAGE).headers["Allow"] == "POST, OPTIONS"
        for reply in (preflight(service, "/round", PAGE), service.get("/operators")):
            assert "Vary" not in reply.headers
            assert not any(name in reply.headers for name in CORS_FIELDS)
        own = f"http://127.0.0.1:{service.port}"
        assert service.request("POST", "/v2/repository/index", b"", {"Origin": own}).status == 200


def test_a_page_may_read_that_the_service_stops() -> None:
    """Its request is still waited for when the time to drain is over."""
    options = ("--drain-timeout", "0.5", "--receive-timeout", "30")
    with Service("--cors-origins", PAGE, *options) as service:
        plug = service.connect()
        head = f"Origin: {PAGE}\r\nOperator-Descriptor: {OCTETS['Operator-Descriptor']}\r\n"
        plug.sendall(
            f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n{head}\r\n".encode()
        )
        with contextlib.closing(service.connection()) as other:
            other.request("GET", "/livez")
            assert Reply.read(other).status == 200  # the request above has come, too
        service.process.terminate()
        reply = reply_on(plug)
        plug.close()
        assert (reply.status, reply.json()["code"]) == (503, "draining")
        assert is_readable(reply)
        assert service.process.wait(30) == 0
