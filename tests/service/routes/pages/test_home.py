"""``GET /``: JSON for programs, HTML for browsers, built or not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from support.http.asgi import ask
from tensor_round_service.app import create_app
from tensor_round_service.documents import Links
from tensor_round_service.refusals import add_refusal_handlers
from tensor_round_service.routes.pages.home import page_response, page_router, wants_html
from tensor_round_service.settings import Settings

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
PROGRAMS = ["", "*/*", "application/json", "application/json, text/plain, */*", "image/png"]
LINKS: Links = {
    **{"docs": "/docs", "openapi": "/openapi.json", "operators": "/operators"},
    **{"conformance": "/conformance", "livez": "/livez", "readyz": "/readyz"},
    **{"round": "/round", "compare": "/compare", "v2": "/v2"},
}


@pytest.mark.parametrize("accept", [CHROMIUM, "text/html", "text/html, application/json;q=0.9"])
def test_browsers_want_html(accept: str) -> None:
    assert wants_html(accept)


@pytest.mark.parametrize("accept", [*PROGRAMS, "application/json, text/html", "text/html;q=0"])
def test_programs_do_not(accept: str) -> None:
    assert not wants_html(accept)


def test_both_are_at_the_root() -> None:
    app = create_app(Settings(backend="numpy"))
    for headers in ([], [("Accept", "*/*")], [("Accept", "application/json")]):
        reply = ask(app, "GET", "/", headers)
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["vary"] == "Accept"
    page = ask(app, "GET", "/", [("Accept", CHROMIUM)])
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["vary"] == "Accept"
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_page_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    html = bytes(page_response(LINKS, tmp_path).body).decode()
    assert "make web" in html
    app = create_app(Settings(backend="numpy"))
    links = re.findall(r'href="([^"]*)"', html)
    assert {"docs", "operators", "v2"} <= set(links)
    assert "compare" not in links
    assert all(ask(app, "GET", f"/{link}").status == 200 for link in links)


def test_a_page_that_is_built_has_its_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "index.html").write_text("<h1>built</h1>")
    (tmp_path / "page" / "page.js").write_text("let x;")
    (tmp_path / "page" / "page.js.map").write_text("{}")
    assert page_response(LINKS, tmp_path).body == b"<h1>built</h1>"
    app = FastAPI()
    app.include_router(page_router(tmp_path))
    add_refusal_handlers(app)
    script = ask(app, "GET", "/page/page.js")
    assert (script.status, script.content) == (200, b"let x;")
    assert script.headers["content-type"].startswith("text/javascript")
    for name in ("page.css", "page.js.map", "index.html", "../index.html", "%2e%2e", "x.js", ""):
        assert ask(app, "GET", f"/page/{name}").status == 404
