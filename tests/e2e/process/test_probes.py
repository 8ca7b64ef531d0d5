"""What monitors, load balancers and people at a prompt ask for, byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import io
import re
import socket
from importlib.metadata import version

import pytest

from support.services.server import Reply, Service
from tensor_round.contract.errors import REFUSALS
from tensor_round_service.app import create_app
from tensor_round_service.settings import Settings

OPENED = sorted(create_app(Settings(backend="numpy")).table.open_paths - {"/docs/"})
LISTED = [
    "/operators",
    "/conformance",
    "/v2",
    "/v2/models/stats",
    "/v2/models/round",
    "/v2/logging",
]


def exchange(service: Service, request: bytes) -> bytes:
    """All that comes until the service ends the connection."""
    with contextlib.closing(service.connect(timeout=20)) as plug:
        plug.sendall(request)
        plug.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: plug.recv(1 << 16), b""))


def head_of(reply: bytes) -> tuple[bytes, http.client.HTTPMessage, bytes]:
    """Status line, fields and body."""
    head, _, body = reply.partition(b"\r\n\r\n")
    status, _, fields = head.partition(b"\r\n")
    return status, http.client.parse_headers(io.BytesIO(fields + b"\r\n\r\n")), body


# As Wget 1.21 and HAProxy 2.6 (option httpchk, with and without a method) send them.
PROBES = {
    "wget-spider": "HEAD {} HTTP/1.1\r\nHost: x\r\nUser-Agent: Wget/1.21.3\r\nAccept: */*\r\n"
    "Accept-Encoding: identity\r\nConnection: Keep-Alive\r\n\r\n",
    "haproxy": "OPTIONS {} HTTP/1.0\r\n\r\n",
    "haproxy-head": "HEAD {} HTTP/1.0\r\n\r\n",
    "haproxy-get": "GET {} HTTP/1.0\r\n\r\n",
    "curl-head": "HEAD {} HTTP/1.1\r\nHost: x\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
}


@pytest.mark.not_behind("nginx", reason="it asks in HTTP/1.1, for its own host")
@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/livez/"])
@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_probes_are_told_that_all_is_well(service: Service, probe: str, path: str) -> None:
    status, fields, body = head_of(exchange(service, probe.format(path).encode()))
    if probe.startswith("OPTIONS"):
        assert status == b"HTTP/1.1 200 OK"
        assert fields["Allow"] == "GET, HEAD, OPTIONS"
        assert body == b""
    else:
        assert status == b"HTTP/1.1 200 OK"
        assert len(body) == (int(fields["Content-Length"]) if probe.startswith("GET") else 0)


def undated(reply: Reply) -> list[tuple[str, str]]:
    """Its fields but Date, which may have moved on between two responses."""
    return sorted(field for field in reply.headers.items() if field[0].lower() != "date")


@pytest.mark.parametrize("path", [*OPENED, *LISTED, "/nowhere", "/v2/nowhere", "/round"])
def test_head_is_get_without_the_body(service: Service, path: str) -> None:
    with contextlib.closing(service.connection()) as connection:
        replies = []
        for method in ("HEAD", "GET", "HEAD"):  # a body would be taken for the next response
            connection.request(method, path, headers={"X-Request-ID": "same"})
            replies.append(Reply.read(connection))
    head, get, again = replies
    assert head.content == again.content == b""
    assert get.content
    for reply in (head, again):
        assert reply.status == get.status
        assert undated(reply) == undated(get)
    assert int(head.headers["Content-Length"]) == len(get.content)


def test_options_says_what_a_path_takes(service: Service) -> None:
    for path, allow in {
        "/round": "POST",
        "/v2/models/round/infer": "POST",
        "/v2": "GET, HEAD",
        "/openapi.json": "GET, HEAD",
    }.items():
        reply = service.request("OPTIONS", path)
        assert (reply.status, reply.content) == (200, b"")
        assert reply.headers["Allow"] == f"{allow}, OPTIONS"
    assert service.request("OPTIONS", "/nowhere").status == 404


def test_the_root_says_where_to_go(service: Service) -> None:
    reply = service.get("/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    document = reply.json()
    assert (document["name"], document["version"]) == ("tensor-round", version("tensor-round"))
    assert {"docs", "openapi", "operators", "conformance", "livez", "readyz", "v2"} <= set(
        document["links"]
    )
    for name, path in document["links"].items():
        assert service.get(path).status == (405 if name in ("round", "compare") else 200)


@pytest.mark.parametrize("path", [path for path in [*OPENED, *LISTED] if path != "/"])
def test_a_slash_too_many_is_forgiven(service: Service, path: str) -> None:
    with_slash = service.get(path + "/")
    if path == "/docs":
        assert with_slash.status == 308
        assert with_slash.headers["Location"] == "../docs"
    else:
        assert with_slash.status == 200
        assert with_slash.content == service.get(path).content


def test_a_slash_too_many_loses_no_upload(service: Service) -> None:
    """It is neither answered as another path, nor redirected, which would send it twice."""
    reply = service.request("POST", "/round/", b"1234")
    assert (reply.status, reply.json()["code"]) == (404, "not_found")
    assert "without its trailing slash" in reply.json()["detail"]


def test_every_error_links_to_a_paragraph_on_it(service: Service) -> None:
    page = service.get("/docs/errors")
    assert page.headers["Content-Type"].startswith("text/html")
    anchors = set(re.findall(r'<h2 id="(\w+)">', page.content.decode()))
    assert anchors == set(REFUSALS)
    for path in ("/nowhere", "/round"):
        problem = service.get(path).json()
        assert problem["type"] == f"/docs/errors#{problem['code']}"
