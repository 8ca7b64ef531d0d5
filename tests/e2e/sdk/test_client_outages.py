"""A service that refuses connections: a client that it has answered waits, any other does not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.clients import AnyClient
from support.services.server import Service
from tensor_round.clients.session import PATIENCE

X = np.array([0.5, 1.5, -2.5], np.float32)
#: Longer than the pauses of three retries together.
OUTAGE = 1.5
#: Far less than a client waits for a service that has answered it, and far more than it needs.
SOON = PATIENCE / 3


@contextlib.contextmanager
def back_after(seconds: float, *options: str) -> Iterator[None]:
    """Starts a service after so long, while the block runs."""
    with contextlib.ExitStack() as stack:

        def start() -> None:
            time.sleep(seconds)
            stack.enter_context(Service(*options))

        thread = threading.Thread(target=start)
        thread.start()
        try:
            yield
        finally:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["tcp", "unix"])
def test_a_restart_is_waited_for(kind: type[AnyClient], place: str, tmp_path: Path) -> None:
    uds = ("--uds", str(tmp_path / "socket"))
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Service(*(uds if place == "unix" else ())))
        client = stack.enter_context(kind(first.url))
        assert client.round(X).tobytes() == np.rint(X).tobytes()
        assert first.stop() == 0
        again = uds if place == "unix" else ("--port", str(first.port))
        with back_after(OUTAGE, *again):
            began = time.monotonic()
            assert client.round(X).tobytes() == np.rint(X).tobytes()
            assert time.monotonic() - began > OUTAGE


def test_the_timeout_is_the_limit(kind: type[AnyClient]) -> None:
    with Service() as service, kind(service.url, timeout=1.5) as client:
        client.round(X)
        assert service.stop() == 0
        began = time.monotonic()
        # The deadline may pass while the last try is under way: then that is told too.
        with pytest.raises((tr.ConnectionFailed, tr.DeadlineExceeded), match="cannot connect"):
            client.round(X)
        assert 0.5 < time.monotonic() - began < SOON


@pytest.mark.parametrize("retries", [3, 0])
def test_a_first_call_to_nobody_is_not_waited_for(kind: type[AnyClient], retries: int) -> None:
    with Service() as service:
        pass
    with kind(service.url, retries=retries) as client:
        began = time.monotonic()
        with pytest.raises(tr.ConnectionFailed, match="cannot connect to"):
            client.round(X)
        assert client.ready() is False
        assert time.monotonic() - began < SOON
