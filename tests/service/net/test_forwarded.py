"""Who calls behind proxies: whom FORWARDED_ALLOW_IPS trusts, and what their fields may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tensor_round_service.net.forwarded import MAX_PROXIES, TrustedProxies
from tensor_round_service.net.http1.head import RequestHead
from tensor_round_service.settings import Settings

PROXY, CALLER, OTHER = "10.0.0.1", "203.0.113.7", "198.51.100.9"
FOR, FORWARDED = b"x-forwarded-for", b"forwarded"


def client(trusted: str, peer: str | None, *fields: tuple[bytes, bytes]) -> str | None:
    head = RequestHead("GET", b"/", "1.1", list(fields), "/", b"")
    return TrustedProxies(trusted).client_of(head, peer)


TRUSTED = [
    ("10.0.0.1", PROXY, True),
    (" 10.0.0.2 , 10.0.0.0/8 ", PROXY, True),
    ("*", PROXY, True),
    ("*", None, True),
    ("unix:", None, True),
    ("::1", "::1", True),
    ("fd00::/8", "fd00::5", True),
    ("10.0.0.2", PROXY, False),
    ("10.0.0.0/8", None, False),
    ("unix:", PROXY, False),
    ("::/0", PROXY, False),
    ("*", "testclient", True),
    ("::/0", "testclient", False),
]


@pytest.mark.parametrize(("trusted", "peer", "is_trusted"), TRUSTED)
def test_only_trusted_peers_say_for_whom_they_ask(
    trusted: str, peer: str | None, is_trusted: bool
) -> None:
    expected = CALLER if is_trusted else peer
    assert client(trusted, peer, (FOR, CALLER.encode())) == expected
    assert client(trusted, peer, (FORWARDED, b"for=" + CALLER.encode())) == expected
    assert client(trusted, peer) == peer


CHAINS = [
    ("forged", [(FOR, f"{OTHER}, {CALLER}")], CALLER),
    ("two proxies", [(FOR, f"{OTHER}, {CALLER}, 10.9.9.9")], CALLER),
    ("two lines", [(FOR, f"{OTHER}, {CALLER}"), (FOR, "10.9.9.9")], CALLER),
    ("all trusted", [(FOR, "10.1.1.1, 10.9.9.9")], "10.1.1.1"),
    ("port", [(FOR, f"{CALLER}:4711")], CALLER),
    ("IPv6", [(FOR, "2001:DB8:0:0::1")], "2001:db8::1"),
    ("IPv6 with a port", [(FOR, "[2001:db8::1]:4711")], "2001:db8::1"),
    ("mapped", [(FOR, f"::ffff:{CALLER}")], CALLER),
    ("mapped proxy", [(FOR, f"{CALLER}, ::ffff:10.9.9.9")], CALLER),
    ("no address", [(FOR, f"{CALLER}, unknown")], PROXY),
    ("no address behind a proxy", [(FOR, f"{CALLER}, unknown, 10.9.9.9")], "10.9.9.9"),
    ("empty", [(FOR, "")], PROXY),
    ("zone", [(FOR, "fe80::1%eth0 odd")], PROXY),
    ("pairs", [(FORWARDED, f'For="{CALLER}:80";proto=https;by=10.0.0.1')], CALLER),
    ("elements", [(FORWARDED, f"for={OTHER} , for={CALLER};x=y,,for=10.9.9.9")], CALLER),
    ("quoted", [(FORWARDED, 'for="[2001:db8::1]:_odd"')], "2001:db8::1"),
    ("quoted comma", [(FORWARDED, f'for={CALLER};x="a,for=10.9.9.9"')], CALLER),
    ("hidden", [(FORWARDED, f"for={CALLER}, for=_hidden")], PROXY),
    ("without for", [(FORWARDED, f"for={CALLER}, proto=http")], PROXY),
    ("malformed", [(FORWARDED, f'for={CALLER}, for="10.9.9.9')], PROXY),
    ("both", [(FORWARDED, f"for={OTHER}"), (FOR, CALLER)], CALLER),
]


@pytest.mark.parametrize(
    ("fields", "expected"), [c[1:] for c in CHAINS], ids=[c[0] for c in CHAINS]
)
def test_the_last_node_that_is_not_trusted_calls(
    fields: list[tuple[bytes, str]], expected: str
) -> None:
    assert client("10.0.0.0/8", PROXY, *((n, v.encode("latin-1")) for n, v in fields)) == expected


def test_with_every_proxy_trusted_the_first_address_is_the_callers() -> None:
    assert client("*", None, (FOR, f"{OTHER}, {CALLER}".encode())) == OTHER


@given(st.binary(max_size=200), st.sampled_from([FOR, FORWARDED]))
def test_no_value_raises(value: bytes, name: bytes) -> None:
    assert client("*", PROXY, (name, value)) is not None


HOSTILE = [b" ", b"\t", b",", b";", b'"', b"for=", b'for="\\"', b'"\\', b"for=::1,", b"a", b"1:"]


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("name", [FOR, FORWARDED])
def test_a_value_of_a_mebibyte_takes_no_time(name: bytes, part: bytes) -> None:
    """Any cost that grows faster than the length would take minutes."""
    for end in (b"", b"\0", b'"'):
        found = client("10.0.0.0/8", PROXY, (name, part * ((1 << 20) // len(part)) + end))
        assert found in (PROXY, "10.0.0.1")


def test_no_more_proxies_are_looked_at_than_there_may_be() -> None:
    proxies = ["10.9.9.9"] * (MAX_PROXIES - 1)
    assert client("10.0.0.0/8", PROXY, (FOR, ",".join([CALLER, *proxies]).encode())) == CALLER
    proxies.append("10.8.8.8")
    assert client("10.0.0.0/8", PROXY, (FOR, ",".join([CALLER, *proxies]).encode())) == "10.9.9.9"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "10.0.0.1,", "/run/x.sock", "**"])
def test_a_setting_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"must be addresses or networks.*got"):
        Settings(forwarded_allow_ips=text)


@pytest.mark.parametrize("text", [None, "", "*", "unix:,::1", "10.0.0.0/8, 192.0.2.1"])
def test_addresses_networks_and_words_are_accepted(text: str | None) -> None:
    assert Settings(forwarded_allow_ips=text).forwarded_allow_ips == text
