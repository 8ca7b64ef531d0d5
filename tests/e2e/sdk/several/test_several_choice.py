"""Several services that are all well: who gets which requests, and what else a client has."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.services.server import Service

X = patterns("float32", 300_000)
EXPECTED = expected_bits(X)


@pytest.fixture
def proxies(service: Service) -> Iterator[list[Proxy]]:
    """Three addresses."""
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy(service.address)) for _ in range(3)]


def urls(proxies: list[Proxy]) -> list[str]:
    return [proxy.url for proxy in proxies]


def test_requests_one_after_another_take_turns(kind: type[AnyClient], proxies: list[Proxy]) -> None:
    with kind(urls(proxies), api_key="key", headers={"X-Team": "a"}) as client:
        assert client.ready()
        for _ in range(5):
            client.round(X[:100])
    for proxy in proxies:
        (seen,) = proxy.seen
        assert seen.up.count(b" HTTP/1.1\r\n") == 2
        headers = seen.headers()
        # The name of this address, and of no other.
        assert headers["host"] == f"localhost:{proxy.port}"
        assert (headers["authorization"], headers["x-team"]) == ("Bearer key", "a")


def test_a_slow_address_gets_fewer_bytes(service: Service) -> None:
    slow = Fault(pause_up=0.01, pause_down=0.01)
    with (
        Proxy(service.address, lambda _: slow) as slowly,
        Proxy(service.address) as quickly,
        tr.Client([slowly.url, quickly.url]) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        sizes = np.random.default_rng(3).integers(1, X.size, 60).tolist()
        for size, y in zip(sizes, threads.map(lambda n: client.round(X[:n]), sizes), strict=True):
            assert np.array_equal(bits(y), EXPECTED[:size])
        got = [sum(seen.up_bytes for seen in proxy.seen) for proxy in (slowly, quickly)]
        assert 0 < got[0] < got[1] / 2


@pytest.mark.parametrize("in_place", [False, True], ids=["fresh", "in-place"])
def test_tiles_go_to_all_addresses_by_their_own_connections(
    kind: type[AnyClient], proxies: list[Proxy], in_place: bool
) -> None:
    with kind(urls(proxies), connections=2, tile_bytes=60_000) as client:
        x = X.copy()
        y = client.round(x, out=x if in_place else None)
        assert np.array_equal(bits(y), EXPECTED)
        assert client.compare(X).shape == X.shape
    assert [proxy.open_most for proxy in proxies] == [2, 2, 2]


def test_a_child_shares_no_connection_and_no_load(service: Service) -> None:
    with Proxy(service.address) as proxy, tr.Client([proxy.url, service.url]) as client:
        for _ in range(4):
            client.round(X)
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads (the proxy's): that is the point here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            right = all(np.array_equal(bits(client.round(X)), EXPECTED) for _ in range(4))
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert np.array_equal(bits(client.round(X)), EXPECTED)
        assert len(proxy.seen) == 2


def test_copies_and_pickles_have_all_addresses(service: Service, proxies: list[Proxy]) -> None:
    given = [service.url, proxies[0].url]
    with tr.Client(given) as client, pickle.loads(pickle.dumps(client)) as there:
        assert repr(there) == f"<tensor_round.Client {','.join(given)} open>"
        for _ in range(2):
            there.round(X[:10])
        assert len(proxies[0].seen) == 1
        # The copy was closed on its own account.
    assert "closed" in repr(there)


def test_unix_sockets_and_ports_can_be_mixed(service: Service, tmp_path: Path) -> None:
    path = str(tmp_path / "a,b.sock")
    with (
        Service("--uds", path) as local,
        tr.Client(f"{local.url.replace(',', '%2C')}, {service.url}") as client,
    ):
        for _ in range(4):
            assert np.array_equal(bits(client.round(X)), EXPECTED)
        assert client.operators()["dialects"]
        assert client.conformance()["backends"]


def test_a_refusal_of_the_request_itself_is_not_repeated(kind: type[AnyClient]) -> None:
    with (
        Service("--max-tensor-bytes", "1000") as small,
        Proxy(small.address) as first,
        Proxy(small.address) as second,
        kind([first.url, second.url]) as client,
    ):
        with pytest.raises(tr.TensorTooLarge, match=r"^http://localhost:\d+: "):
            # So short that it is sent whole before the refusal.
            client.round(X[:500])
        assert len(first.seen) + len(second.seen) == 1
