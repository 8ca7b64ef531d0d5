"""Authentication: which requests need a key, what counts as one, and what others are told."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from support.http.asgi import ask, scope_of
from support.keys import digest
from tensor_round_service.app import create_app
from tensor_round_service.auth.api_keys import CREDENTIALS
from tensor_round_service.http1 import asgi
from tensor_round_service.http1.asgi import AsgiRequest
from tensor_round_service.settings import Settings

KEY = "correct horse battery staple"
EXPIRED = "swordfish"
BEARER = [("Authorization", f"Bearer {KEY}")]
OPEN_PATHS = create_app(Settings(backend="numpy")).table.open_paths


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"{digest(KEY)} robot\n{digest(EXPIRED)} rusty 2020-02-29\n")
    return path


@pytest.fixture(scope="module")
def app(key_file: Path) -> FastAPI:
    return create_app(Settings(api_keys_file=key_file, backend="numpy"))


ADMITTED = [
    ("bearer", BEARER),
    ("any-case", [("authorization", f"bEaReR {KEY}")]),
    ("spaces", [("Authorization", f" Bearer   {KEY} ")]),
    ("x-api-key", [("X-API-Key", KEY)]),
    ("x-api-key-spaces", [("x-api-key", f" {KEY}\t")]),
]


@pytest.mark.parametrize("headers", [c[1] for c in ADMITTED], ids=[c[0] for c in ADMITTED])
def test_a_key_opens(app: FastAPI, headers: list[tuple[str, str]]) -> None:
    assert ask(app, "GET", "/operators", headers).status == 200


REFUSED = [
    ("nothing", [], "no API key"),
    ("empty", [("X-API-Key", "")], "no API key"),
    ("empty-bearer", [("Authorization", "Bearer ")], "no API key"),
    ("scheme-alone", [("Authorization", "Bearer")], "no API key"),
    ("no-scheme", [("Authorization", KEY.replace(" ", ""))], "no API key"),
    ("other-scheme", [("Authorization", f"Basic {KEY}")], "no API key"),
    ("cookie", [("Cookie", f"api_key={KEY}")], "no API key"),
    ("wrong", [("Authorization", "Bearer nonsense")], "not valid"),
    ("nearly", [("X-API-Key", KEY + "!")], "not valid"),
    ("its-digest", [("X-API-Key", digest(KEY))], "not valid"),
    ("expired", [("X-API-Key", EXPIRED)], "not valid"),
    ("not-ascii", [("X-API-Key", "schlüssel")], "not valid"),
    ("both-ways", [*BEARER, ("X-API-Key", KEY)], "more than one"),
    ("two-authorizations", [*BEARER, *BEARER], "more than one"),
    ("good-and-bad", [*BEARER, ("Authorization", "Bearer nonsense")], "more than one"),
    ("two-x-api-keys", [("X-API-Key", KEY), ("X-API-Key", KEY)], "more than one"),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("headers", "says"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_nothing_else_does(
    app: FastAPI, headers: list[tuple[str, str]], says: str, method: str
) -> None:
    path = "/round" if method == "POST" else "/operators"
    answer = ask(app, method, path, [*headers, ("X-Request-ID", "mine")])
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "mine"
    assert answer.headers["cache-control"] == "no-store"
    document = json.loads(answer.content)
    assert document["code"] == "unauthorized"
    assert says in document["detail"]
    for secret in (KEY, EXPIRED, digest(KEY), "nonsense", "schl", "robot", "rusty"):
        assert secret not in str(answer)


def test_expired_and_unknown_keys_get_the_same_response(app: FastAPI) -> None:
    answers = [
        ask(app, "GET", "/operators", [("X-API-Key", key), ("X-Request-ID", "1")])
        for key in (EXPIRED, "unknown")
    ]
    assert answers[0] == answers[1]


#: Those with a slash more.
SLASHED = ["/livez/", "/openapi.json/", "/v2/health/ready/"]


@pytest.mark.parametrize("path", [*sorted(OPEN_PATHS), *SLASHED])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_and_the_docs_are_open(app: FastAPI, method: str, path: str) -> None:
    assert ask(app, method, path).status == (308 if path == "/docs/" else 200)


#: Beside the routes.
SHUT = [
    "/docs/nothing",
    "/docs/../operators",
    "/docs//",
    "//",
    "/operators/",
    "/v2/",
    "/v2/models/round/ready",
    "/v2/health",
    "/v2/health/",
    "/v2/health/live/../../models/stats",
    "/livez//",
    "//livez",
    "/LIVEZ",
    "/livez;x",
    "/nowhere",
    "*",
]


@pytest.mark.parametrize("path", SHUT)
def test_everything_else_is_shut_known_or_not(app: FastAPI, path: str) -> None:
    answer = ask(app, "GET", path)
    assert answer.status == 401
    if path.startswith("/v2"):
        assert answer.headers["content-type"] == "application/json"
        assert list(json.loads(answer.content)) == ["error"]


def test_every_route_is_shut_but_the_open_ones(app: FastAPI) -> None:
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    paths |= set(app.openapi()["paths"])
    assert {"/", "/livez", "/round", "/operators", "/v2/models/round/infer"} <= paths
    for path in paths - OPEN_PATHS:
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE"):
            assert ask(app, method, path).status == 401


def test_the_openapi_document_tells_where_a_key_is_needed(app: FastAPI) -> None:
    document = app.openapi()
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "apiKey"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert (operation.get("security") == []) == (path in OPEN_PATHS)
            assert ("401" in operation["responses"]) == (path not in OPEN_PATHS)
    assert "security" not in create_app(Settings(backend="numpy")).openapi()


def test_without_a_key_file_all_is_open() -> None:
    app = create_app(Settings(backend="numpy"))
    assert ask(app, "GET", "/operators").status == 200
    assert ask(app, "GET", "/operators", [("X-API-Key", "whatever")]).status == 200


def test_the_framework_does_not_see_the_key() -> None:
    scope = scope_of("GET", "/operators", [*BEARER, ("X-API-Key", KEY), ("Accept", "*/*")])
    request = AsgiRequest(scope, receive)
    assert asgi.scope_of(request, CREDENTIALS)["headers"] == [(b"accept", b"*/*")]
    assert len(scope["headers"]) == 3  # the server's own list is left as it was


async def receive() -> MutableMapping[str, Any]:
    raise AssertionError("the body was asked for")
