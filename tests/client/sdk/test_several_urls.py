"""What names several services, and what a client of one has of it: nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import httpx2
import pytest

import tensor_round as tr
from tensor_round.messages.replicas import MAX_REPLICAS, read_replicas
from tensor_round.transport.address import Address
from tensor_round.transport.http_transport import HTTPTransport
from tensor_round.transport.several.transport import SeveralTransport

KINDS = [tr.Client, tr.AsyncClient]
A, B = "http://a", "https://b:8443/c"


@pytest.mark.parametrize("url", [A, B, "http://[::1]:9", "unix:///run/a%20b%2C.sock", "ray://h:1"])
def test_an_address_is_shown_as_its_url(url: str) -> None:
    assert Address.parse(url).url == url


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("urls", [[A, B], (A, B), f"{A},{B}"], ids=["list", "tuple", "text"])
def test_several_urls_by_any_way(
    kind: type[tr.Client | tr.AsyncClient], urls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kind(urls)
    monkeypatch.setenv("TENSOR_ROUND_URL", f"{A},{B}")
    for each in (client, copy.copy(client), pickle.loads(pickle.dumps(client)), kind()):
        assert repr(each) == f"<tensor_round.{kind.__name__} {A},{B} open>"
        transport = each._session._transport
        assert isinstance(transport, SeveralTransport)
        assert transport.addresses == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", [A, [A], (A,)], ids=str)
def test_one_url_has_nothing_in_between(
    kind: type[tr.Client | tr.AsyncClient], url: str | list[str]
) -> None:
    assert type(kind(url)._session._transport) is HTTPTransport


WRONG: dict[str, tuple[Any, str]] = {
    "none": ([], "at least one URL"),
    "no-text": ([A, 8000], "a sequence of strings, got int"),
    "bytes": (b"http://a", "a sequence of strings, got bytes"),
    "a-set": ({A, B}, "a sequence of strings, got set"),
    "empty": ([A, ""], "must be one URL"),
    "a-comma": ([f"{A},{B}"], "without a comma"),
    "a-comma-in-a-path": ("http://a/b,c", "URL 2 of 2"),
    "a-comma-at-the-end": (f"{A},", "URL 2 of 2"),
    "twice": ([A, "HTTP://A:80/"], "URL 2 of 2 .*is there before"),
    "local": ([A, "local:"], "must be the only URL"),
    "directory": ([A, "ray://a:1"], "must be the only URL"),
    "directory-without-port": ("ray://a", "must have a port"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("urls", "rule"), WRONG.values(), ids=WRONG)
def test_lists_that_name_no_services(
    kind: type[tr.Client | tr.AsyncClient], urls: Any, rule: str
) -> None:
    with pytest.raises(tr.InvalidArgument, match=rule):
        kind(urls)


def test_no_error_shows_a_password() -> None:
    with pytest.raises(tr.InvalidArgument, match="URL 2 of 2") as caught:
        tr.Client([A, "http://user:secret@b"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", [f"{A},{B}", "ray://a:1", "local:"])
def test_a_transport_of_ones_own_sends_to_one_address(url: str) -> None:
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.Client(url, transport=httpx2.HTTPTransport())
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.AsyncClient(url, transport=httpx2.AsyncHTTPTransport())


def test_a_directory_is_read_and_what_is_not_known_ignored() -> None:
    replicas = [{"url": A, "gpu": True}, {"url": B}]
    assert read_replicas({"replicas": replicas, "generation": 7}) == [A, B]
    assert read_replicas({"replicas": []}) == []


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ({}, 'no list "replicas"'),
        ({"replicas": {"url": A}}, 'no list "replicas"'),
        ({"replicas": [{"url": A}, A]}, r'replicas\.1 .*no "url"'),
        ({"replicas": [{"url": None}]}, r'replicas\.0 .*no "url"'),
        ({"replicas": [{"url": A}] * (MAX_REPLICAS + 1)}, "more than 10000"),
    ],
)
def test_a_directory_of_another_form_is_refused(document: dict[str, Any], rule: str) -> None:
    with pytest.raises(tr.ProtocolViolation, match=rule):
        read_replicas(document)
