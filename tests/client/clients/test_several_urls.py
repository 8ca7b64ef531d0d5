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


@pytest.mark.parametrize("url", [A, B, "http://[::1]:9", *UNIX, "ray://h:1", "rays://h:1"])
def test_an_address_is_shown_as_its_url(url: str) -> None:
    assert Address.parse(url).url == url


SPANS: dict[str, tuple[Any, ...]] = {
    A: ("a", 80),
    B: ("b", 8443),
    **dict.fromkeys(UNIX, ("/run/a b,.sock",)),
    **dict.fromkeys(["local:", "ray://h:1", "rays://h:1", f"{A},{B}"], ()),
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
    "directory-by-tls-without-port": ("rays://a", "must have a port"),
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


@pytest.mark.parametrize("url", [f"{A},{B}", "ray://a:1", "rays://a:1", "local:"])
def test_a_transport_of_ones_own_sends_to_one_address(url: str) -> None:
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.Client(url, transport=httpx2.HTTPTransport())
    with pytest.raises(tr.InvalidArgument, match="one http, https or unix URL"):
        tr.AsyncClient(url, transport=httpx2.AsyncHTTPTransport())


class Nowhere(Transport):
    """A directory that is not read."""


def directory(url: str, *, has_secrets: bool = False) -> Directory:
    return Directory(Address.parse(url), Nowhere(), has_secrets=has_secrets)


def listed(document: dict[str, Any]) -> set[str]:
    return {address.url for address in directory("ray://a:1").addresses(document)}


def test_a_directory_is_read_and_what_is_not_known_ignored() -> None:
    replicas = [{"url": A, "gpu": True}, {"url": B}, {"url": A}]
    assert listed({"replicas": replicas, "generation": 7}) == {A, B}


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ({}, "no list"),
        ({"replicas": {"url": A}}, "no list"),
        ({"replicas": [{"url": A}, A]}, "no http or https url"),
        ({"replicas": [{"url": [A]}]}, "no http or https url"),
        ({"replicas": [{"url": "local:"}]}, "no http or https url"),
        *[({"replicas": [{"url": A}, {"url": url}]}, "no http or https url") for url in UNIX],
        ({"replicas": [{"url": "rays://a:1"}]}, "no http or https url"),
        ({"replicas": [{"url": "ray://a:1"}]}, "no http or https url"),
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


#: Directories, each with replicas that get a client's secrets, and with some that do not.
SECRETS = {
    "ray://10.0.0.5:8090": (
        [
            "http://10.0.0.5:8000",
            "http://10.99.1.2:8000",
            "https://192.168.1.2",
            "http://[fd00::1]:1",
        ],
        ["http://127.0.0.1:8000", "http://localhost:8000", "http://203.0.113.7:8000"],
    ),
    "ray://head:8090": (
        ["http://head:8000", "https://head", "http://172.16.0.1:1", "http://100.64.0.9:1"],
        ["https://head.evil.example", "http://heads", "http://[::1]:80", "http://169.254.169.254"],
    ),
    "ray://localhost:8090": (
        ["http://127.0.0.1:8000", "http://[::1]:8000", "http://10.0.0.5:8000"],
        ["https://evil.example", "http://172.32.0.1", "http://0.0.0.0:1", "http://2130706433"],
    ),
    "ray://203.0.113.5:8090": (
        ["http://203.0.113.5:8000"],
        ["http://203.0.113.6:8000", "http://10.0.0.5:8000", "http://127.0.0.1:8000"],
    ),
    "ray://[2001:db8::1]:8090": (
        ["http://[2001:db8::1]:1"],
        ["http://[2001:db8::2]:1", "http://[fe80::1]:1", "http://[::ffff:10.0.0.5]:1"],
    ),
}


@pytest.mark.parametrize("url", SECRETS)
def test_secrets_stay_in_the_directorys_network(url: str) -> None:
    allowed, refused = SECRETS[url]
    with_secrets, without = directory(url, has_secrets=True), directory(url)
    for replica in allowed:
        with_secrets.addresses({"replicas": [{"url": replica}]})
    for replica in refused:
        document = {"replicas": [{"url": allowed[0]}, {"url": replica}]}
        with pytest.raises(tr.ProtocolViolation, match="gets no API key"):
            with_secrets.addresses(document)
        without.addresses(document)


def test_a_directory_by_tls_lists_replicas_by_tls_alone() -> None:
    by_tls = directory("rays://head:8443", has_secrets=True)
    by_tls.addresses({"replicas": [{"url": "https://anywhere.example"}]})
    for has_secrets in (True, False):
        with pytest.raises(tr.ProtocolViolation, match='"http://head:8000" is not https'):
            directory("rays://head:8443", has_secrets=has_secrets).addresses(
                {"replicas": [{"url": "https://head"}, {"url": "http://head:8000"}]}
            )
