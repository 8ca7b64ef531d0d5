"""What a client may be made from and what not, and clients as values: shown, copied, pickled."""

from __future__ import annotations

import copy
import pickle
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

import tensor_round as tr
from support.clients import KINDS, AnyClient
from tensor_round.clients.options import headers_from, with_environment
from tensor_round.transport.address import Address

ADDRESSES: dict[str, tuple[Address, str]] = {
    "http://127.0.0.1:8000": (Address("http", "127.0.0.1", 8000), "127.0.0.1:8000"),
    "http://host": (Address("http", "host", 80), "host"),
    "HTTPS://Host/": (Address("https", "host", 443), "host"),
    "https://host:8443/a/b/": (Address("https", "host", 8443, "/a/b"), "host:8443"),
    "http://[::1]:9": (Address("http", "::1", 9), "[::1]:9"),
}
if hasattr(socket, "AF_UNIX"):  # not on Windows
    ADDRESSES |= {
        "unix:///run/a.sock": (Address("http", "localhost", 80, uds="/run/a.sock"), "localhost"),
        "unix:///a%20b": (Address("http", "localhost", 80, uds="/a b"), "localhost"),
    }


@pytest.mark.parametrize("url", ADDRESSES)
def test_urls(url: str) -> None:
    address, host = ADDRESSES[url]
    assert Address.parse(url) == address
    assert address.host_header == host


def test_local_is_a_scheme_without_case() -> None:
    assert Address.parse("LOCAL:") == Address("local", "", 0)


#: Arguments, and a part of the refusal.
INVALID: list[tuple[dict[str, Any], str]] = [
    *[
        ({"url": url}, ".")
        for url in (
            "ftp://host",
            "http://",
            "http://host:port",
            "http://host:99999",
            "http://[::1",
            "http://user:secret@host",
            "http://host/?a=b",
            "http://host/#a",
            "http://h\u00f6st",
            "local:x",
            "unix://relative.sock",
        )
    ],
    *[
        ({"url": url}, r"docs/deploy\.md")
        for url in ("http://a,http://b", "ray://a:1", "rays://a:1", ["http://a"], ("http://a",))
    ],
    *[
        ({"url": url}, rf'did you mean "http://{url}"\? Accepted: http://host,')
        for url in ("127.0.0.1:8000", "localhost", "gpu-host:8000/numerals")
    ],
    *[({"timeout": seconds}, "timeout") for seconds in (0, -1.0, float("nan"))],
    *[({name: 0}, name) for name in ("connections", "tile_bytes")],
    ({"retries": -1}, "retries"),
]


@pytest.mark.parametrize(("argument", "why"), INVALID, ids=str)
def test_invalid_argument_is_refused(argument: dict[str, Any], why: str) -> None:
    with pytest.raises(tr.InvalidArgument, match=why) as caught:
        tr.Client(**{"url": "http://host", **argument})
    assert "secret" not in str(caught.value)


def test_numbers_of_numpy_are_taken_as_python_s() -> None:
    with tr.Client(
        "http://host", retries=np.int64(2), timeout=np.float32(2), digest=np.True_
    ) as one:
        assert repr(one._arguments.options).count("np.") == 0


def test_the_environment_says_where_and_by_which_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSOR_ROUND_URL", raising=False)
    with tr.Client() as client:
        assert repr(client) == "<tensor_round.Client http://127.0.0.1:8000 open>"
    monkeypatch.setenv("TENSOR_ROUND_URL", "http://from.env")
    monkeypatch.setenv("TENSOR_ROUND_API_KEY", "env-key")
    assert with_environment(None, None) == ("http://from.env", "env-key")
    assert with_environment("http://given", "given") == ("http://given", "given")


def test_headers_of_the_caller_win_over_ours_but_for_those_of_the_protocol() -> None:
    headers = dict(headers_from("key", {"user-agent": "mine", "X-Trace": "a, b"}))
    assert headers == {b"user-agent": b"mine", b"X-Trace": b"a, b", b"Authorization": b"Bearer key"}
    for name in ("Host", "content-length", "Operator-Descriptor"):
        with pytest.raises(tr.InvalidArgument, match="by the client itself"):
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


WRONG_TYPES: list[dict[str, Any]] = [
    {"url": 8000},
    {"api_key": b"s3cret"},
    {"verify": 1},
    {"cert": ("a", None)},
    {"cert": ("a",)},
    {"timeout": "5"},
    {"retries": 3.0},
    {"tile_bytes": None},
    {"headers": [("a", "b")]},
    {"headers": {"a": 1}},
    {"digest": 1},
    {"transport": 8},
]


@pytest.mark.parametrize("argument", WRONG_TYPES, ids=str)
def test_wrong_types_are_type_errors_too(argument: dict[str, Any]) -> None:
    for kind in (tr.Client, tr.AsyncClient):
        with pytest.raises(tr.InvalidArgumentType, match=f"^{next(iter(argument))} must") as caught:
            kind(**{"url": "http://host", **argument})
        assert isinstance(caught.value, TypeError)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("kind", [tr.Client, tr.AsyncClient])
def test_an_unknown_option_is_a_type_error_that_names_the_nearest(kind: Callable[..., Any]) -> None:
    with pytest.raises(tr.InvalidArgumentType, match="no option tiemout; did you mean timeout"):
        kind("http://host", tiemout=5)


@pytest.mark.parametrize(
    "option",
    [
        {"verify": "/no/such/file"},
        {"cert": "/no/such/file"},
        {"cert": ("/no/such/file", "/none", "s3cret")},
    ],
    ids=["verify", "cert", "cert-and-key"],
)
def test_certificates_that_cannot_be_read(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(tr.InvalidArgument, match=r"verify or cert .*/no/such/file.*: No") as caught:
        tr.Client("https://host", **option)
    assert "s3cret" not in str(caught.value)
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(tr.InvalidArgument, match=r"ca\.pem: "):
        tr.Client("https://host", **{next(iter(option)): path})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rounding_is_to_integers(kind: type[AnyClient]) -> None:
    with kind("http://127.0.0.1:9") as client:
        for arguments, named in (((1,), {}), ((np.int64(2),), {}), ((), {"decimals": -1})):
            with pytest.raises(tr.TensorRoundError, match="to integers only, so scale first"):
                client.round(np.zeros(3), *arguments, **named)


def test_no_decimals_are_those_of_numpy() -> None:
    assert tr.Client("local:").round(np.array([0.5, 1.5]), decimals=0).tolist() == [0, 2]
    assert tr.round(np.array([0.5, 1.5]), decimals=0).tolist() == [0, 2]


OPTIONS: dict[str, Any] = {
    "api_key": "s3cret",
    "verify": False,
    "timeout": 5.0,
    "retries": 1,
    "connections": 2,
    "tile_bytes": 1 << 20,
    "headers": {"X-Team": "numerics"},
    "digest": True,
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.parametrize("kind", [tr.Client, tr.AsyncClient])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_has_the_arguments_and_connections_of_its_own(
    kind: type[tr.Client | tr.AsyncClient], way: Callable[[Any], Any]
) -> None:
    client = kind("http://host/a", **OPTIONS)
    other = way(client)
    assert type(other) is kind
    assert other._arguments == client._arguments
    assert other._session is not client._session


def test_the_environment_is_read_where_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSOR_ROUND_URL", "http://from.env")
    monkeypatch.setenv("TENSOR_ROUND_API_KEY", "env-key")
    pickled = pickle.dumps(tr.Client())
    monkeypatch.delenv("TENSOR_ROUND_URL")
    monkeypatch.delenv("TENSOR_ROUND_API_KEY")
    client = pickle.loads(pickled)
    assert (client._arguments.url, client._arguments.options["api_key"]) == (
        "http://from.env",
        "env-key",
    )


def test_a_closed_client_s_copy_is_open() -> None:
    client = tr.Client("http://host")
    client.close()
    assert repr(client) == "<tensor_round.Client http://host closed>"
    assert repr(copy.copy(client)) == "<tensor_round.Client http://host open>"


@pytest.mark.parametrize("kind", [tr.Client, tr.AsyncClient])
def test_no_repr_shows_a_key(kind: type[tr.Client | tr.AsyncClient]) -> None:
    client = kind("http://a:9/b", api_key="s3cret", headers={"X-Key": "s3cret"})
    assert repr(client) == f"<tensor_round.{kind.__name__} http://a:9/b open>"
    assert "s3cret" not in repr(client._arguments)


def test_an_ssl_context_is_shared_by_copies_and_cannot_be_pickled() -> None:
    client = tr.Client("https://host", verify=ssl.create_default_context())
    assert copy.deepcopy(client)._arguments.options["verify"] is client._arguments.options["verify"]
    with pytest.raises(tr.InvalidArgumentType, match="verify"):
        pickle.dumps(client)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_transport_belongs_to_one_client(way: Callable[[Any], Any]) -> None:
    client = tr.Client("http://host", transport=httpx2.HTTPTransport())
    with client, pytest.raises(tr.InvalidArgumentType, match="transport"):
        way(client)
