"""What the page allows a browser: only what came with it."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from support.http.asgi import Answer, ask
from tensor_round_service.app import create_app
from tensor_round_service.http1.response import page_headers
from tensor_round_service.settings import Settings


@pytest.fixture(scope="module")
def page() -> Answer:
    return ask(create_app(Settings(backend="numpy")), "GET", "/docs")


def policy_of(headers: dict[str, str]) -> dict[str, list[str]]:
    parts = [part.split() for part in headers["content-security-policy"].split(";")]
    return {name: sources for name, *sources in parts}


def test_the_page_may_run_its_own_script_and_no_other(page: Answer) -> None:
    text = page.content.decode()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy_of(page.headers)["script-src"] == ["'self'", f"'sha256-{digest}'"]


def test_nothing_else_comes_from_anywhere(page: Answer) -> None:
    policy = policy_of(page.headers)
    assert policy["default-src"] == ["'none'"]
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
    assert not re.search(r"(src|href)=\"(//|[a-z]+:)", text, re.I)


def test_a_page_without_inline_scripts_allows_none() -> None:
    headers = {name.lower(): value for name, value in page_headers().items()}
    assert policy_of(headers)["script-src"] == ["'self'"]
