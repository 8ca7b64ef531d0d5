"""Callers of one connection have their responses while others send all they can."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.http.floods import FLOODS, KEY, Flood, X, flooded, get, rounded
from support.http.native_form import Answers
from support.services.server import Service, until

#: Some hundred times what a response takes, and a small part of what it took in the event loop of a
#: connection that has no turns: that went on as long as the flood.
SECONDS = 2.0
#: Sent by a flood that has begun.
BEGUN_BYTES = 512 << 10


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with keys, and its metrics on a port of their own."""
    keys: Path = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(hashlib.sha256(KEY.encode()).hexdigest())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Service("--api-keys-file", str(keys), "--metrics-port", str(port)) as running:
        yield running


@pytest.mark.parametrize("count", [1, 48])
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_others_are_answered_beside_a_flood(keyed: Service, flood: Flood, count: int) -> None:
    waits = []
    with contextlib.ExitStack() as stack:
        tally = stack.enter_context(flooded(keyed.connect, flood, count))
        until(lambda: tally.sent > BEGUN_BYTES or tally.closed > count)
        health = stack.enter_context(keyed.connect())
        rounds = stack.enter_context(keyed.connect())
        alive, tensors = Answers(health), Answers(rounds)
        for _ in range(10):
            began = time.monotonic()
            health.sendall(get("/livez"))
            assert alive.next()[0] == 200
            rounds.sendall(rounded(X))
            tensors.expect(X)
            waits.append(time.monotonic() - began)
    assert max(waits) < SECONDS, waits


def test_a_flood_of_the_metrics_port_delays_nobody(keyed: Service) -> None:
    port = int(keyed.options[keyed.options.index("--metrics-port") + 1])
    connect = partial(socket.create_connection, ("127.0.0.1", port), 60)
    with flooded(connect, Flood(get("/x")), 1) as tally:
        until(lambda: tally.sent > BEGUN_BYTES)
        began = time.monotonic()
        assert keyed.get("/livez").status == 200
        with contextlib.closing(connect()) as scrape:
            scrape.sendall(get("/metrics"))
            assert Answers(scrape).next()[0] == 200
        assert time.monotonic() - began < SECONDS
