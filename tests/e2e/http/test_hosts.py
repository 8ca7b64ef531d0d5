"""Which host a request may be for, and which page may read a response or ask for a change."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.inference_form import error_of, infer_path
from support.http.native_form import ieee754
from support.keys import digest
from support.segments import PREFIX
from support.services.server import Reply, Service, tracebacks
from tensor_round_service.net.http1.head import MAX_HEAD_BYTES

#: What other tests' services have is not set.
UNSET = {"TENSOR_ROUND_ALLOWED_HOSTS": None}
KEY = "s3cret-of-alice"
X = np.array([0.5, 1.5, -2.5], "<f4")
OCTETS = {"Operator-Descriptor": ieee754("float32", [3])}
INFER = infer_path("round")
TENSOR = {"name": "X", "datatype": "FP32", "shape": [3]}
DOCUMENT = json.dumps({"inputs": [{**TENSOR, "data": X.tolist()}]}).encode()
REQUESTS: dict[str, tuple[str, str, dict[str, str], bytes]] = {
    "GET": ("GET", "/operators", {}, b""),
    "HEAD": ("HEAD", "/livez", {}, b""),
    "round": ("POST", "/round", OCTETS, X.tobytes()),
    "GET v2": ("GET", "/v2", {}, b""),
    "infer": ("POST", INFER, {}, DOCUMENT),
}


@pytest.fixture(scope="module")
def local() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX, environment=UNSET) as running:
        yield running
    assert not tracebacks(running.log)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"{digest(KEY)} alice\n")
    return path


def send(
    connection: http.client.HTTPConnection,
    kind: str,
    hosts: tuple[str, ...],
    target: str | None = None,
    more: dict[str, str] | None = None,
) -> Reply:
    """The reply to a request with these Host fields."""
    method, path, fields, body = REQUESTS[kind]
    connection.putrequest(method, target or path, skip_host=True)
    for host in hosts:
        connection.putheader("Host", host)
    for name, value in {**fields, **(more or {}), "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    return Reply.read(connection)


def ask(service: Service, kind: str, *hosts: str, target: str | None = None) -> Reply:
    """The same on a connection of its own."""
    with contextlib.closing(service.connection()) as connection:
        return send(connection, kind, hosts, target)


def is_misdirected(reply: Reply, kind: str) -> bool:
    """Whether it is 421, in the form of its path."""
    if reply.status != 421:
        return False
    if kind == "HEAD":
        return not reply.content
    if "v2" in REQUESTS[kind][1]:
        return "ALLOWED_HOSTS" in error_of(reply)
    assert reply.headers["Content-Type"] == "application/problem+json"
    return bool(reply.json()["code"] == "misdirected_host")


@pytest.mark.parametrize("kind", REQUESTS)
def test_addresses_and_localhost_are_served_and_no_other_name(local: Service, kind: str) -> None:
    for host in ("127.0.0.1", "[::1]:8000", "localhost"):
        assert ask(local, kind, host).status == 200, host
    for host in ("evil.example:8000", ""):
        assert is_misdirected(ask(local, kind, host), kind), host
    for hosts in (("localhost", "evil.example"), ("localhost", "localhost")):
        assert ask(local, kind, *hosts).status == 400  # RFC 9112, section 3.2


@pytest.fixture(scope="module")
def open_to_all() -> Iterator[Service]:
    """A service that allows all hosts."""
    with Service("--host", "0.0.0.0", environment=UNSET) as running:
        yield running


@pytest.mark.parametrize("kind", REQUESTS)
def test_invalid_host_is_400(local: Service, open_to_all: Service, kind: str) -> None:
    """RFC 9112, section 3.2; whichever hosts are allowed."""
    for service in (local, open_to_all):
        for host in ("127.0.0.1:99999999", "evil example", "[evil.example]", "http://localhost"):
            with contextlib.closing(service.connection()) as connection:
                refused = send(connection, kind, (host,))
                assert refused.status == 400
                if kind != "HEAD":
                    document = refused.json()
                    detail = error_of(refused) if "v2" in REQUESTS[kind][1] else document["detail"]
                    assert detail.startswith("Host: must be")
                assert send(connection, kind, ("localhost",)).status == 200


@pytest.mark.parametrize("path", ["/round", "/nowhere", "/v2", INFER, "/livez"])
def test_unknown_method_is_501(local: Service, path: str) -> None:
    with contextlib.closing(local.connection()) as connection:
        for method in ("FETCH", "get", "PROPFIND"):
            connection.request(method, path, b"a body")
            reply = Reply.read(connection)
            assert reply.status == 501
            assert f'method "{method}"' in reply.content.decode().replace("\\", "")
            connection.request("GET", "/livez")
            assert Reply.read(connection).status == 200
        connection.request("QUERY", "/livez", b"a body")
        assert Reply.read(connection).status == 405


def test_refused_request_ends_before_the_next(local: Service) -> None:
    with contextlib.closing(local.connection()) as connection:
        for kind in REQUESTS:
            assert is_misdirected(send(connection, kind, ("evil.example",)), kind)
            assert send(connection, kind, ("localhost",)).status == 200


def test_host_of_an_absolute_target_counts(local: Service) -> None:
    assert ask(local, "round", "evil.example", target="http://localhost/round").status == 200
    assert ask(local, "GET", "evil.example", target="http://[::1]:80/operators").status == 200
    for target in ("http://evil.example/round", "http://evil.example:80/round"):
        assert is_misdirected(ask(local, "round", "localhost", target=target), "round")


def test_host_is_checked_before_the_key(keys: Path) -> None:
    with Service("--api-keys-file", str(keys), environment=UNSET) as service:
        for kind in REQUESTS:
            with contextlib.closing(service.connection()) as connection:
                for key in ({}, {"X-API-Key": KEY}, {"X-API-Key": "another"}):
                    refused = send(connection, kind, ("evil.example",), more=key)
                    assert is_misdirected(refused, kind)
                served = send(connection, kind, ("localhost",), more={"X-API-Key": KEY})
                assert served.status == 200


UNREGISTER = "/v2/systemsharedmemory/unregister"
CHANGES = [
    "/v2/systemsharedmemory/region/r/register",
    "/v2/systemsharedmemory/region/r/unregister",
    UNREGISTER,
    "/v2/cudasharedmemory/region/r/register",
    "/v2/repository/index",
    "/v2/repository/models/round/load",
    "/v2/repository/models/round/unload",
]
ORIGINS = ["http://evil.example", "https://127.0.0.1.evil.example", "null"]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("path", CHANGES)
def test_page_of_another_origin_changes_nothing(local: Service, path: str, origin: str) -> None:
    """Its body is not waited for, whatever type it says."""
    for media_type in ("text/plain", "application/json", None):
        with contextlib.closing(local.connection(20)) as connection:
            connection.putrequest("POST", path)
            connection.putheader("Origin", origin)
            connection.putheader("Content-Length", "100")
            if media_type is not None:
                connection.putheader("Content-Type", media_type)
            connection.endheaders()
            reply = Reply.read(connection)
        assert reply.status == 403
        assert "origin" in error_of(reply)
    assert local.get("/v2/systemsharedmemory/status").json() == []


@pytest.mark.parametrize("origin", ["http://", "null", ""])
def test_request_without_a_host_is_not_from_a_page_without_one(local: Service, origin: str) -> None:
    with contextlib.closing(local.connect()) as plug:
        plug.sendall(f"POST {UNREGISTER} HTTP/1.0\r\nOrigin: {origin}\r\n\r\n".encode())
        assert plug.recv(12) == b"HTTP/1.1 403"


def test_programs_and_own_pages_may_change_things(local: Service) -> None:
    own = f"http://127.0.0.1:{local.port}"
    for fields in ({}, {"Origin": own}):
        assert local.request("POST", UNREGISTER, b"", fields).status == 200
        assert local.request("POST", "/v2/repository/index", b"{}", fields).status == 200
    assert local.request("POST", UNREGISTER, b"", {"Origin": "http://127.0.0.1:1"}).status == 403


@pytest.mark.parametrize("origin", ORIGINS)
def test_requests_without_effect_are_open_to_any_page(local: Service, origin: str) -> None:
    for method, path, fields, body in REQUESTS.values():
        assert local.request(method, path, body, {**fields, "Origin": origin}).status == 200
    reply = local.request("POST", "/operators", b"", {"Origin": origin})
    assert reply.json()["code"] == "method_not_allowed"


REGION = {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 12}}
IN_MEMORY = [
    {"inputs": [{**TENSOR, **REGION}]},
    {**json.loads(DOCUMENT), "outputs": [{"name": "Y", **REGION}]},
]


PAGE = "https://app.example"
OTHER = "http://localhost:5173"
STRANGERS = ["https://evil.example", "https://app.example.evil", "http://app.example", "null", ""]
CORS_FIELDS = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers")


@pytest.fixture(scope="module")
def shared(keys: Path) -> Iterator[Service]:
    """A service for the pages of two origins."""
    with Service(
        "--cors-origins",
        f"{PAGE}, {OTHER}",
        "--api-keys-file",
        str(keys),
        "--shared-memory-prefix",
        PREFIX,
        "--receive-timeout",
        "0.5",
    ) as running:
        yield running


def with_key(origin: str, **fields: str) -> dict[str, str]:
    return {"X-API-Key": KEY, "Origin": origin, **fields}


def names(value: str | None) -> set[str]:
    return {name.strip().lower() for name in (value or "").split(",")}


def is_readable(reply: Reply, origin: str = PAGE) -> bool:
    """Whether a browser gives it to a page of that origin."""
    assert reply.headers.get_all("Vary") == ["Origin"]
    allowed = reply.headers.get_all("Access-Control-Allow-Origin") or []
    assert len(allowed) <= 1
    return allowed == [origin]


def preflight(service: Service, path: str, origin: str) -> Reply:
    fields = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,operator-descriptor,x-api-key",
    }
    return service.request("OPTIONS", path, headers=fields)


@pytest.mark.parametrize("origin", [PAGE, OTHER])
@pytest.mark.parametrize("path", ["/round", INFER, "/operators", UNREGISTER])
def test_preflight_of_an_allowed_origin_needs_no_key(
    shared: Service, path: str, origin: str
) -> None:
    reply = preflight(shared, path, origin)
    assert (reply.status, reply.content) == (200, b"")
    assert is_readable(reply, origin)
    assert names(reply.headers["Access-Control-Allow-Methods"]) == {"get", "head", "post"}
    assert int(reply.headers["Access-Control-Max-Age"]) > 0
    assert reply.headers["Access-Control-Allow-Credentials"] is None
    assert names(reply.headers["Access-Control-Allow-Headers"]) >= {
        "operator-descriptor",
        "content-type",
        "content-encoding",
        "content-digest",
        "want-content-digest",
        "authorization",
        "x-api-key",
        "x-request-id",
        "inference-header-content-length",
        "traceparent",
    }


def test_page_of_an_allowed_origin_reads_a_result_and_its_fields(shared: Service) -> None:
    reply = shared.request("POST", "/round", X.tobytes(), with_key(PAGE, **OCTETS))
    assert (reply.status, reply.content) == (200, np.rint(X).tobytes())
    assert is_readable(reply)
    assert names(reply.headers["Access-Control-Expose-Headers"]) >= {
        "output-descriptor",
        "execution-backend",
        "server-timing",
        "x-request-id",
        "content-digest",
        "retry-after",
    }
    assert shared.request("GET", "/operators", headers=with_key(OTHER)).status == 200
    plain = shared.request("GET", "/operators", headers={"X-API-Key": KEY})
    assert (plain.status, is_readable(plain)) == (200, False)  # it may be kept for a page


def refusals(service: Service, origin: str) -> Iterator[tuple[int, Reply]]:
    """Refusals of each part of the service."""
    key = with_key(origin)
    yield 401, service.request("POST", "/round", X.tobytes(), {"Origin": origin, **OCTETS})
    yield 404, service.request("GET", "/nowhere", headers=key)
    yield 405, service.request("GET", "/round", headers=key)
    yield 400, service.request("POST", "/round", X.tobytes()[:-1], {**key, **OCTETS})
    yield 421, service.request("GET", "/operators", headers={**key, "Host": "evil.example"})
    yield 400, service.request("POST", INFER, b"{", key)
    large = {f"X-{number}": "x" * 1000 for number in range(MAX_HEAD_BYTES // 1000 + 1)}
    yield 431, service.request("GET", "/operators", headers={**key, **large})
    with contextlib.closing(begun(service, {**key, **OCTETS})) as plug:
        yield 408, reply_on(plug)


def begun(service: Service, fields: dict[str, str]) -> socket.socket:
    """A request whose body does not come."""
    plug = service.connect()
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    plug.sendall(f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n{head}\r\n".encode())
    return plug


def reply_on(plug: socket.socket) -> Reply:
    response = http.client.HTTPResponse(plug)
    response.begin()
    return Reply(response.status, response.headers, response.read())


@pytest.mark.parametrize("origin", [PAGE, *STRANGERS])
def test_only_pages_of_allowed_origins_read_refusals(shared: Service, origin: str) -> None:
    for status, reply in refusals(shared, origin):
        assert reply.status == status
        assert is_readable(reply, origin) == (origin == PAGE)
        if origin == PAGE:
            assert "retry-after" in names(reply.headers["Access-Control-Expose-Headers"])
        else:
            assert not any(name in reply.headers for name in CORS_FIELDS)
    if origin != PAGE:
        reply = preflight(shared, "/round", origin)
        assert reply.status == 401
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_only_pages_of_allowed_origins_change_things(shared: Service) -> None:
    assert shared.request("POST", UNREGISTER, b"", with_key(PAGE)).status == 200
    for origin in STRANGERS:
        assert shared.request("POST", UNREGISTER, b"", with_key(origin)).status == 403
    for body in (json.dumps(document).encode() for document in IN_MEMORY):
        assert shared.request("POST", INFER, body, with_key(PAGE)).status == 404  # no such region
        for origin in STRANGERS:
            assert shared.request("POST", INFER, body, with_key(origin)).status == 403


def test_without_cors_origins_no_page_reads_anything(local: Service) -> None:
    assert preflight(local, "/round", PAGE).headers["Allow"] == "POST, OPTIONS"
    for reply in (preflight(local, "/round", PAGE), local.get("/operators")):
        assert "Vary" not in reply.headers
        assert not any(name in reply.headers for name in CORS_FIELDS)


def test_page_reads_that_the_service_stops() -> None:
    """Its request is still waited for when the time to drain is over."""
    options = ("--drain-timeout", "0.3", "--receive-timeout", "30")
    with Service("--cors-origins", PAGE, *options) as service:
        with contextlib.closing(begun(service, {"Origin": PAGE, **OCTETS})) as plug:
            assert service.get("/livez").status == 200  # the request above has come, too
            service.process.terminate()
            reply = reply_on(plug)
        assert (reply.status, reply.json()["code"]) == (503, "draining")
        assert is_readable(reply)
        assert service.process.wait(30) == 0
