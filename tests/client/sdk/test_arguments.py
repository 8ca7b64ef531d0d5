"""What a client may be made from, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round as tr
from tensor_round.arguments import address_from, headers_from
from tensor_round.transport.address import Address

ADDRESSES: dict[str, tuple[Address, str]] = {
    "http://127.0.0.1:8000": (Address("http", "127.0.0.1", 8000), "127.0.0.1:8000"),
    "http://host": (Address("http", "host", 80), "host"),
    "HTTPS://Host/": (Address("https", "host", 443), "host"),
    "https://host:8443/a/b/": (Address("https", "host", 8443, "/a/b"), "host:8443"),
    "http://[::1]:9": (Address("http", "::1", 9), "[::1]:9"),
    "unix:///run/a.sock": (Address("http", "localhost", 80, uds="/run/a.sock"), "localhost"),
    "unix:///a%20b": (Address("http", "localhost", 80, uds="/a b"), "localhost"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_urls(url: str) -> None:
    address, host = ADDRESSES[url]
    assert Address.parse(url) == address
    assert address.host_header == host


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://user:secret@host",
        "http://host/?a=b",
        "http://host/#a",
        "http://host/a b",
        "http://h\u00f6st",
        "unix://relative.sock",
        "unix://",
    ],
)
def test_urls_that_name_no_service(url: str) -> None:
    with pytest.raises(tr.InvalidArgument) as caught:
        tr.Client(url)
    assert "secret" not in str(caught.value)


def test_the_environment_says_where_and_by_which_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSOR_ROUND_URL", raising=False)
    with pytest.raises(tr.InvalidArgument, match="TENSOR_ROUND_URL"):
        tr.Client()
    monkeypatch.setenv("TENSOR_ROUND_URL", "http://from.env")
    monkeypatch.setenv("TENSOR_ROUND_API_KEY", "env-key")
    assert address_from(None).host == "from.env"
    assert address_from("http://given").host == "given"
    assert dict(headers_from(None, None))[b"Authorization"] == b"Bearer env-key"
    assert dict(headers_from("given", None))[b"Authorization"] == b"Bearer given"


def test_headers_of_the_caller_win_over_ours_but_for_those_of_the_protocol() -> None:
    headers = dict(headers_from("key", {"user-agent": "mine", "X-Trace": "a, b"}))
    assert headers == {b"user-agent": b"mine", b"X-Trace": b"a, b", b"Authorization": b"Bearer key"}
    for name in ("Host", "content-length", "Operator-Descriptor"):
        with pytest.raises(tr.InvalidArgument, match="own to send"):
            headers_from(None, {name: "x"})


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "\u00e9", "a\0", "a "])
def test_nothing_can_be_smuggled_into_a_header(value: str) -> None:
    with pytest.raises(tr.InvalidArgument):
        headers_from(None, {"X-A": value})
    with pytest.raises(tr.InvalidArgument):
        headers_from(None, {"X-A\r\nB": "c"})
    with pytest.raises(tr.InvalidArgument) as caught:
        headers_from("key" + value, None)
    assert "key" + value not in str(caught.value)


@pytest.mark.parametrize(
    "limit",
    [
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"retries": -1},
        {"connections": 0},
        {"tile_bytes": 0},
    ],
    ids=str,
)
def test_limits_that_no_call_could_keep_to(limit: dict[str, Any]) -> None:
    with pytest.raises(tr.InvalidArgument, match=next(iter(limit))):
        tr.Client("http://host", **limit)


@pytest.mark.parametrize("option", [{"verify": "/no/such/file"}, {"cert": "/no/such/file"}])
def test_certificates_that_cannot_be_read(option: dict[str, Any]) -> None:
    with pytest.raises(tr.InvalidArgument, match="verify or cert"):
        tr.Client("https://host", **option)
