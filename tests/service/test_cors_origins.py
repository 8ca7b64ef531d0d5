"""CORS_ORIGINS: what is an origin, and what only looks like one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tensor_round_service.auth.origins import Cors
from tensor_round_service.settings import Settings

ORIGINS = [
    *("https://app.example", "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:81"),
    *("tauri://localhost", "chrome-extension://abcdefghijklmnop", "https://a.example:8443"),
]
NONE = [
    *("*", "null", "app.example", "https://app.example/", "https://app.example/page", "https://"),
    *("https://App.example", "HTTPS://app.example", "https://app.example:443", "http://x:80"),
    *("https://u@app.example", "https://*.example", "https://a.example https://b.example"),
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_origins_are_taken_as_they_are(origin: str) -> None:
    cors = Cors.of(Settings(cors_origins=f" {origin} , https://b.example,"))
    assert cors is not None
    assert cors.origins == {origin.encode(), b"https://b.example"}


@pytest.mark.parametrize("text", NONE)
def test_origin_that_no_browser_sends_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"origins as browsers send them.*got"):
        Settings(cors_origins=f"https://b.example,{text}")


@pytest.mark.parametrize("text", [None, "", " , "])
def test_none_is_none(text: str | None) -> None:
    assert Cors.of(Settings(cors_origins=text)) is None
