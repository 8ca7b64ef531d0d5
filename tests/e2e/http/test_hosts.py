"""Which host a request may be for, and which page may ask for a change."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.inference_form import error_of, infer_path
from support.http.native_form import ieee754
from support.segments import PREFIX
from support.services.server import Reply, Service

#: What other tests' services have is not set.
UNSET = {"TENSOR_ROUND_ALLOWED_HOSTS": None}
KEY = "s3cret-of-alice"
X = np.array([0.5, 1.5, -2.5], "<f4")
OCTETS = {"Operator-Descriptor": ieee754("float32", [3])}
DOCUMENT = json.dumps(
    {"inputs": [{"name": "X", "datatype": "FP32", "shape": [3], "data": X.tolist()}]}
).encode()
REQUESTS: dict[str, tuple[str, str, dict[str, str], bytes]] = {
    "GET": ("GET", "/operators", {}, b""),
    "HEAD": ("HEAD", "/livez", {}, b""),
    "round": ("POST", "/round", OCTETS, X.tobytes()),
    "GET v2": ("GET", "/v2", {}, b""),
    "infer": ("POST", infer_path("round"), {}, DOCUMENT),
}
#: Of a service on 127.0.0.1 that was told of no names.
OWN = [
    *("127.0.0.1", "127.0.0.1:8000", "10.1.2.3", "[::1]", "[::1]:8000"),
    *("localhost", "LOCALHOST:8000", "localhost."),
]
FOREIGN = [
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"),
    *("notlocalhost", "127.0.0.1@evil.example", "evil.example:80:80", "[evil.example]", ""),
]
ORIGINS = ["http://evil.example", "https://127.0.0.1.evil.example", "null"]


@pytest.fixture(scope="module")
def local() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX, environment=UNSET) as running:
        yield running
    assert not [line for line in running.log if "Traceback" in line]


@pytest.fixture(scope="module")
def named() -> Iterator[Service]:
    with Service("--allowed-hosts", "Round.example, other.example") as running:
        yield running


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
@pytest.mark.parametrize("host", OWN)
def test_addresses_and_localhost_are_served(local: Service, host: str, kind: str) -> None:
    assert ask(local, kind, host).status == 200


def test_a_request_of_http_1_0_may_name_no_host(local: Service) -> None:
    with contextlib.closing(local.connect()) as plug:
        plug.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert plug.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("host", FOREIGN)
def test_any_other_name_is_refused(local: Service, host: str, kind: str) -> None:
    assert is_misdirected(ask(local, kind, host), kind)
    assert ask(local, kind, "localhost").status == 200


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("hosts", [("localhost", "evil.example"), ("localhost", "localhost")])
def test_two_hosts_are_no_http(local: Service, hosts: tuple[str, ...], kind: str) -> None:
    """RFC 9112, section 3.2."""
    assert ask(local, kind, *hosts).status == 400


def test_a_body_ends_before_the_next_request_of_a_refused_one(local: Service) -> None:
    with contextlib.closing(local.connection()) as connection:
        for kind in REQUESTS:
            assert is_misdirected(send(connection, kind, ("evil.example",)), kind)
            assert send(connection, kind, ("localhost",)).status == 200


def test_an_absolute_target_decides(local: Service) -> None:
    assert ask(local, "round", "evil.example", target="http://localhost/round").status == 200
    assert ask(local, "GET", "evil.example", target="http://[::1]:80/operators").status == 200
    for target in ("http://evil.example/round", "http://evil.example:80/round"):
        assert is_misdirected(ask(local, "round", "localhost", target=target), "round")


@pytest.mark.parametrize("kind", REQUESTS)
def test_only_the_names_that_are_set_are_served(named: Service, kind: str) -> None:
    for host in ("round.example", "ROUND.example:80", "other.example", "127.0.0.1", "localhost"):
        assert ask(named, kind, host).status == 200
    for host in ("x", "example", "evil.round.example", "round.example.evil"):
        assert is_misdirected(ask(named, kind, host), kind)


def test_none_set_is_no_name(local: Service) -> None:
    with Service("--host", "0.0.0.0", "--allowed-hosts", "") as service:
        assert ask(service, "round", "10.1.2.3").status == 200
        assert is_misdirected(ask(service, "round", "round.example"), "round")


def test_a_service_for_others_has_any_name(tmp_path: Path) -> None:
    for options in (["--host", "0.0.0.0"], ["--uds", str(tmp_path / "a.sock")]):
        with Service(*options, environment=UNSET) as service:
            for kind in REQUESTS:
                assert ask(service, kind, "round.example").status == 200


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "::1"])
def test_every_loopback_address_is_one(host: str) -> None:
    with Service("--host", host, environment=UNSET) as service:
        assert ask(service, "round", "localhost").status == 200
        assert is_misdirected(ask(service, "round", "evil.example"), "round")


def test_the_host_is_asked_for_before_the_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{hashlib.sha256(KEY.encode()).hexdigest()} alice\n")
    with Service("--api-keys-file", str(keys), environment=UNSET) as service:
        for kind in REQUESTS:
            with contextlib.closing(service.connection()) as connection:
                for key in ({}, {"X-API-Key": KEY}, {"X-API-Key": "another"}):
                    refused = send(connection, kind, ("evil.example",), more=key)
                    assert is_misdirected(refused, kind)
                served = send(connection, kind, ("localhost",), more={"X-API-Key": KEY})
                assert served.status == 200


CHANGES = [
    "/v2/systemsharedmemory/region/r/register",
    "/v2/systemsharedmemory/region/r/unregister",
    "/v2/systemsharedmemory/unregister",
    "/v2/cudasharedmemory/region/r/register",
    "/v2/repository/index",
    "/v2/repository/models/round/load",
    "/v2/repository/models/round/unload",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("path", CHANGES)
def test_a_page_of_another_origin_changes_nothing(local: Service, path: str, origin: str) -> None:
    """Its body is not waited for, whatever type it says."""
    for media_type in ("text/plain", "application/json", "application/x-www-form-urlencoded", None):
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
def test_no_host_is_not_the_origin_of_a_page_without_one(local: Service, origin: str) -> None:
    with contextlib.closing(local.connect()) as plug:
        plug.sendall(f"POST {CHANGES[2]} HTTP/1.0\r\nOrigin: {origin}\r\n\r\n".encode())
        assert plug.recv(12) == b"HTTP/1.1 403"


def test_callers_and_own_pages_may_change_things(local: Service) -> None:
    own = f"http://127.0.0.1:{local.port}"
    for fields in ({}, {"Origin": own}):
        assert local.request("POST", CHANGES[2], b"", fields).status == 200
        assert local.request("POST", "/v2/repository/index", b"{}", fields).status == 200
    assert local.request("POST", CHANGES[2], b"", {"Origin": "http://127.0.0.1:1"}).status == 403


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_requests_without_effect_are_open_to_any_page(
    local: Service, kind: str, origin: str
) -> None:
    method, path, fields, body = REQUESTS[kind]
    assert local.request(method, path, body, {**fields, "Origin": origin}).status == 200
    reply = local.request("POST", "/operators", b"", {"Origin": origin})
    assert reply.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_no_page_has_registered_memory_rounded(local: Service, origin: str, side: str) -> None:
    region = {"shared_memory_region": "r", "shared_memory_byte_size": 12}
    wanted = json.loads(DOCUMENT)
    if side == "inputs":
        (tensor,) = wanted["inputs"]
        del tensor["data"]
        tensor["parameters"] = region
    else:
        wanted["outputs"] = [{"name": "Y", "parameters": region}]
    body = json.dumps(wanted).encode()
    fields = {"Origin": origin, "Content-Type": "text/plain"}
    reply = local.request("POST", infer_path("round"), body, fields)
    assert (reply.status, "origin" in error_of(reply)) == (403, True)
    assert local.request("POST", infer_path("round"), body).status == 404  # there is no such region
