"""What names several services, and what a client of one has of it: nothing."""

from __future__ import annotations

import copy
import pickle
import socket
from typing import Any

import httpx2
import pytest

import tensor_round as tr
from tensor_round.clients.tracing import server_attributes
from tensor_round.transport.address import Address
from tensor_round.transport.http import HTTPTransport, Transport
from tensor_round.transport.several import MAX_REPLICAS, Directory, SeveralTransport

KINDS = [tr.Client, tr.AsyncClient]
A, B = "http://a", "https://b:8443/c"


#: URLs of Unix sockets, which Windows has not.
UNIX = ["unix:///run/a%20b%2C.sock"] if hasattr(socket, "AF_UNIX") else []


@pytest.mark.parametrize("url", [A, B, "http://[::1]:9", *UNIX, "ray://h:1"])
def test_an_address_is_shown_as_its_url(url: str) -> None:
    assert Address.parse(url).url == url


SPANS: dict[str, tuple[Any, ...]] = {
    A: ("a", 80),
    B: ("b", 8443),
    **dict.fromkeys(UNIX, ("/run/a b,.sock",)),
    **dict.fromkeys(["local:", "ray://h:1", f"{A},{B}"], ()),
}


@pytest.mark.parametrize("url", SPANS)
def test_a_span_has_the_address_of_one_service(url: str) -> None:
    assert tuple(server_attributes(url).values()) == SPANS[url]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("urls", [[A, B], (A, B), f"{A},{B}"], ids=["list", "tuple", "text"])
def test_several_urls_by_any_way(
    kind: type[tr.Client | tr.AsyncClient], urls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kind(urls)
    monkeypatch.setenv("TENSOR_ROUND_URL", f"{A},{B}")
    for each in (client, copy.copy(client), pickle.loads(pickle.dumps(client)), kind()):
        assert repr(each) == f"<tensor_round.{kind.__name__} {A},{B} open>"
        transport = each._session.transport
        assert isinstance(transport, SeveralTransport)
        assert transport.addresses == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("url", [A, [A], (A,)], ids=str)
def test_one_url_has_nothing_in_between(
    kind: type[tr.Client | tr.AsyncClient], url: str | list[str]
) -> None:
    assert type(kind(url)._session.transport) is HTTPTransport


ONCE = "several URLs must be http, https or unix URLs, each only once"
FORM = "the URL must be http://host, .* separated by commas"
WRONG: dict[str, tuple[Any, str]] = {
    "none": ([], FORM),
    "no-text": ([A, 8000], "a sequence of strings, got int"),
    "bytes": (b"http://a", "a sequence of strings, got bytes"),
    "a-set": ({A, B}, "a sequence of strings, got set"),
    "empty": ([A, ""], FORM),
    "a-comma-in-a-path": ("http://a/b,c", FORM),
    "a-comma-at-the-end": (f"{A},", FORM),
    "twice": ([A, "HTTP://A:80/"], ONCE),
    "local": ([A, "local:"], ONCE),
    "directory": ([A, "ray://a:1"], ONCE),
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
    with pytest.raises(tr.InvalidArgument, match="no user name") as caught:
        tr.Client([A, "http://user:secret@b"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", [f"{A},{B}", "ray://a:1", "local:"])
def test_a_transport_of_ones_own_sends_to_one_address(url: str) -> None:
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.Client(url, transport=httpx2.HTTPTransport())
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.AsyncClient(url, transport=httpx2.AsyncHTTPTransport())


class Nowhere(Transport):
    """A directory that is not read."""


def listed(document: dict[str, Any]) -> set[str]:
    return {address.url for address in Directory("ray://a:1", Nowhere()).addresses(document)}


def test_a_directory_is_read_and_what_is_not_known_ignored() -> None:
    replicas = [{"url": A, "gpu": True}, {"url": B}, {"url": A}]
    assert listed({"replicas": replicas, "generation": 7}) == {A, B}


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ({}, "no list"),
        ({"replicas": {"url": A}}, "no list"),
        ({"replicas": [{"url": A}, A]}, "no http, https or unix url"),
        ({"replicas": [{"url": [A]}]}, "no http, https or unix url"),
        ({"replicas": [{"url": "local:"}]}, "no http, https or unix url"),
        ({"replicas": [{"url": "ray://a:1"}]}, "no http, https or unix url"),
        ({"replicas": [{"url": "ftp://a"}]}, "a replica's url is wrong"),
        ({"replicas": [{"url": A}] * (MAX_REPLICAS + 1)}, "at most 10000"),
    ],
)
def test_a_directory_of_another_form_is_refused(document: dict[str, Any], rule: str) -> None:
    with pytest.raises(tr.ProtocolViolation, match=rule):
        listed(document)


def test_a_directory_without_replicas_may_have_some_later() -> None:
    with pytest.raises(tr.ConnectionFailed, match="no replicas") as caught:
        listed({"replicas": []})
    assert caught.value.transient
