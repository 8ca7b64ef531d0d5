"""CORS_ORIGINS and ALLOWED_HOSTS: what is an origin or a host, and what only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tensor_round.contract.errors import MisdirectedHost
from tensor_round_service.auth.origins import Cors, host_check
from tensor_round_service.settings import Settings

ORIGINS = [
    "https://app.example",
    "http://localhost:5173",
    "http://127.0.0.1:8080",
    "http://[::1]:81",
    "tauri://localhost",
    "chrome-extension://abcdefghijklmnop",
    "https://a.example:8443",
]
NONE = [
    "*",
    "null",
    "app.example",
    "https://app.example/",
    "https://app.example/page",
    "https://",
    "https://App.example",
    "HTTPS://app.example",
    "https://app.example:443",
    "http://x:80",
    "https://u@app.example",
    "https://*.example",
    "https://a.example https://b.example",
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


OWN = [
    "127.0.0.1",
    "127.0.0.1:8000",
    "10.1.2.3",
    "[::1]",
    "[::1]:8000",
    "localhost",
    "LOCALHOST:8000",
    "localhost.",
]
FOREIGN = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "notlocalhost",
    "",
]
NAMED = ["round.example", "ROUND.example:80", "other.example"]


@pytest.mark.parametrize(
    ("settings", "allowed", "refused"),
    [
        ({}, OWN, [*FOREIGN, *NAMED]),
        (
            {"allowed_hosts": "Round.example, other.example"},
            [*OWN, *NAMED],
            [*FOREIGN, "x", "example", "evil.round.example", "round.example.evil"],
        ),
        ({"host": "0.0.0.0", "allowed_hosts": ""}, OWN, [*FOREIGN, *NAMED]),
        *(({"host": host}, OWN, FOREIGN) for host in ("127.0.0.2", "localhost", "::1")),
    ],
    ids=str,
)
def test_hosts_of_a_service(
    settings: dict[str, str], allowed: list[str], refused: list[str]
) -> None:
    check = host_check(Settings.model_validate(settings))
    for host in (None, *(name.encode() for name in allowed)):
        check(host)
    for name in refused:
        with pytest.raises(MisdirectedHost, match="ALLOWED_HOSTS"):
            check(name.encode())


def test_service_that_others_reach_has_any_name() -> None:
    for settings in (Settings(host="0.0.0.0"), Settings(uds=Path("a.sock"))):
        for host in (None, b"", b"evil.example:80", b"[::1]"):
            host_check(settings)(host)
