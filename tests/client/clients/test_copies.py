"""Clients as values: shown, copied, pickled."""

from __future__ import annotations

import copy
import pickle
import ssl
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

import tensor_round as tr

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
KINDS = [tr.Client, tr.AsyncClient]


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
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
