"""Requests of browsers, monitors and balancers: pages, probes, HEAD, OPTIONS."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import posixpath
import re
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.services.server import Reply, Service
from tensor_round.contract.errors import REFUSALS
from tensor_round.contract.operators import registry
from tensor_round.contract.version import __version__
from tensor_round_service.app import create_app
from tensor_round_service.settings import Settings

WEB = Path(__file__).parents[3] / "service" / "tensor_round_service" / "pages" / "web"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SWAGGER = "/docs/swagger-ui-bundle.js"
#: What of the page may be compressed, and is.
LARGE_FILES = ["/", "/page/main.js", "/page/page.css", "/page/client/client.js", SWAGGER]
OPENED = sorted(create_app(Settings(backend="numpy")).table.open_paths - {"/docs/"})
LISTED = [
    "/operators",
    "/conformance",
    "/v2",
    "/v2/models/stats",
    "/v2/models/round",
    "/v2/logging",
]


def fetch(service: Service, path: str, headers: Mapping[str, str] | None = None) -> Reply:
    return service.request(
        "GET", path, headers={**(BROWSER if path == "/" else {}), **(headers or {})}
    )


def referred(path: str, text: str) -> set[str]:
    """The paths of the files that a file needs."""
    if path == "/":
        found = re.findall(r'(?:src|href)="([^"]+\.\w+)"', text)
    else:
        found = re.findall(r'^(?:import|export) .*?from "([^"]+)";$', text, re.MULTILINE)
        assert all(name.startswith("./") for name in found), found
    return {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in found}


def test_page_and_all_that_it_needs_are_served_as_they_lie_in_the_tree(service: Service) -> None:
    waiting, seen = ["/"], {"/"}
    while waiting:
        path = waiting.pop()
        reply = fetch(service, path)
        assert reply.status == 200, path
        suffix = posixpath.splitext(path)[1]
        assert (reply.headers["Content-Type"] or "").split(";")[0] == TYPES.get(suffix, "text/html")
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        assert reply.content == (WEB / name).read_bytes()
        if suffix in ("", ".js"):
            more = referred(path, reply.content.decode()) - seen
            waiting += more
            seen |= more
    files = {f"/page/{f.relative_to(WEB).as_posix()}" for f in WEB.rglob("*") if f.suffix in TYPES}
    # The page imports what it uses of the client by its index.
    assert files == seen - {"/"}
    for path in ("/page/", "/page/index.html", "/page/client/package.json"):
        assert fetch(service, path).status == 404


def test_programs_get_json_at_the_root(service: Service) -> None:
    for accept in ("*/*", "application/json", ""):
        reply = service.request("GET", "/", headers={"Accept": accept})
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.headers["Vary"] == "Accept"
    assert (fetch(service, "/").headers["Vary"] or "").split(", ")[0] == "Accept"
    root = reply.json()
    assert (root["name"], root["version"]) == ("tensor-round", __version__)
    links = {"docs", "openapi", "operators", "conformance", "livez", "readyz", "v2", "compare"}
    assert links <= set(root["links"])
    for name, path in root["links"].items():
        assert service.get(path).status == (405 if name in ("round", "compare") else 200)


@pytest.mark.not_behind("nginx", reason="it compresses, and changes ETags, by itself")
@pytest.mark.parametrize("path", LARGE_FILES)
def test_files_are_compressed_and_known_by_their_etag(service: Service, path: str) -> None:
    plain, compressed = fetch(service, path), fetch(service, path, {"Accept-Encoding": "br, gzip"})
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == plain.content
    again = {"Accept-Encoding": "gzip", "If-None-Match": compressed.headers["ETag"]}
    assert fetch(service, path, again).status == 304


# As HAProxy 2.6 (option httpchk, with and without a method) and curl send them.
PROBES = {
    "haproxy": "OPTIONS {} HTTP/1.0\r\n\r\n",
    "haproxy-head": "HEAD {} HTTP/1.0\r\n\r\n",
    "curl-head": "HEAD {} HTTP/1.1\r\nHost: x\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
}


@pytest.mark.not_behind("nginx", reason="it asks in HTTP/1.1, for its own host")
@pytest.mark.parametrize("path", ["/", "/livez", "/readyz", "/livez/"])
@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_probes_of_monitors_get_200(service: Service, probe: str, path: str) -> None:
    with contextlib.closing(service.connect(timeout=20)) as plug:
        plug.sendall(probe.format(path).encode())
        plug.shutdown(socket.SHUT_WR)
        head, _, body = b"".join(iter(lambda: plug.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    status, _, lines = head.partition(b"\r\n")
    fields = http.client.parse_headers(io.BytesIO(lines + b"\r\n\r\n"))
    assert status == b"HTTP/1.1 200 OK"
    if probe.startswith("OPTIONS"):
        assert fields["Allow"] == "GET, HEAD, OPTIONS"
    else:
        assert int(fields["Content-Length"]) > 0
    assert body == b""


def undated(reply: Reply) -> list[tuple[str, str]]:
    """Its fields but Date, which may have moved on between two responses."""
    return sorted(field for field in reply.headers.items() if field[0].lower() != "date")


@pytest.mark.parametrize(
    "path", sorted({*OPENED, *LISTED, *LARGE_FILES, "/nowhere", "/v2/nowhere", "/round"})
)
def test_head_is_get_without_the_body(service: Service, path: str) -> None:
    fields = {"X-Request-ID": "same", **(BROWSER if path in LARGE_FILES else {})}
    with contextlib.closing(service.connection()) as connection:
        replies = []
        for method in ("HEAD", "GET", "HEAD"):  # a body would be taken for the next response
            connection.request(method, path, headers=fields)
            replies.append(Reply.read(connection))
    head, get, again = replies
    assert head.content == again.content == b""
    assert get.content
    for reply in (head, again):
        assert reply.status == get.status
        assert undated(reply) == undated(get)
    assert int(head.headers["Content-Length"]) == len(get.content)


def test_options_lists_the_methods_of_a_path(service: Service) -> None:
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


@pytest.mark.parametrize("path", [path for path in [*OPENED, *LISTED] if path != "/"])
def test_trailing_slash_is_forgiven(service: Service, path: str) -> None:
    with_slash = service.get(path + "/")
    if path == "/docs":
        assert with_slash.status == 308
        assert with_slash.headers["Location"] == "../docs"
    else:
        assert with_slash.status == 200
        assert with_slash.content == service.get(path).content


def test_trailing_slash_of_an_upload_is_named(service: Service) -> None:
    """It is neither answered as another path, nor redirected, which would send it twice."""
    reply = service.request("POST", "/round/", b"1234")
    assert (reply.status, reply.json()["code"]) == (404, "not_found")
    assert "without its trailing slash" in reply.json()["detail"]


def test_every_error_links_to_its_paragraph(service: Service) -> None:
    page = service.get("/docs/errors")
    assert page.headers["Content-Type"].startswith("text/html")
    anchors = set(re.findall(r'<h2 id="(\w+)">', page.content.decode()))
    assert anchors == set(REFUSALS)
    for path in ("/nowhere", "/round"):
        problem = service.get(path).json()
        assert problem["type"] == f"/docs/errors#{problem['code']}"


def test_operators_are_the_catalog_and_the_limits(service: Service) -> None:
    shown = service.get("/operators").json()
    assert shown["dialects"] == json.loads(json.dumps(registry.catalog()))
    assert set(shown) == {"dialects", "roundings", "dtypes", "execution", "limits", "service"}
