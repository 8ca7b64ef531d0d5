"""API keys on a real socket: before the body, on every face, changed while it serves."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.http.native_form import Answers, ieee754, message, post, tensor
from support.keys import digest
from support.services.server import Service, until

KEY, OTHER = "s3cret-of-alice", "s3cret-of-bob"
X = np.array([0.5, 1.5, -2.5], "<f4")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"{digest(KEY)} alice\n")
    with Service("--api-keys-file", str(path)) as running:
        yield running
    assert "s3cret" not in "".join(running.log)


def test_client_needs_a_key_but_for_health(locked: Service) -> None:
    refused = post(locked, ieee754("float32", [3]), X.tobytes(), Authorization=f"Bearer {OTHER}")
    assert (refused.status, refused.json()["code"]) == (401, "unauthorized")
    assert OTHER.encode() not in refused.content
    with tr.Client(locked.url, api_key=KEY) as client:
        assert (client.round(X) == np.rint(X)).all()
    with tr.Client(locked.url) as client:
        assert client.ready()
        with pytest.raises(tr.Unauthorized):
            client.round(X)


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_401_comes_before_the_body(locked: Service, expect: str) -> None:
    with contextlib.closing(locked.connect(timeout=20)) as plug:
        plug.sendall(
            "POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: no JSON at all\r\n"
            f"{expect}Content-Length: {10 << 30}\r\n\r\n".encode()
        )
        assert plug.recv(100).startswith(b"HTTP/1.1 401 ")


def statuses(service: Service, key: str) -> set[int]:
    """What this key is answered, on enough connections to meet every worker."""
    fields = {"X-API-Key": key}
    return {service.request("GET", "/operators", headers=fields).status for _ in range(20)}


def test_every_worker_learns_of_a_changed_key_file(tmp_path: Path) -> None:
    """Within two seconds, if the machine has time for the workers."""
    path = tmp_path / "keys"
    path.write_text(f"{digest(KEY)} alice\n")
    broken = "line 1: does not begin with the 64 hex digits"
    with Service("--api-keys-file", str(path), "--workers", "2") as service:
        assert statuses(service, KEY) == {200}
        assert statuses(service, OTHER) == {401}

        path.write_text(f"{digest(OTHER)} bob\n")
        until(lambda: statuses(service, KEY) == {401}, 30)
        assert statuses(service, OTHER) == {200}

        path.write_text("s3cret-by-mistake")
        # Each worker looks at the file when it is asked, and says so once.
        until(lambda: statuses(service, OTHER) == {200} and service.counted(broken) == 2, 30)
    assert "s3cret" not in "".join(service.log)


def test_withdrawn_key_is_refused_on_a_connection_that_it_opened(tmp_path: Path) -> None:
    keys, x = tmp_path / "keys", tensor(64)
    keys.write_text(digest(KEY))
    request = message(x, more=f"X-API-Key: {KEY}\r\n")
    with (
        Service("--api-keys-file", str(keys)) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        answers = Answers(plug)
        for _ in range(3):
            plug.sendall(request)
            answers.expect(x)
        keys.write_text(digest(OTHER))

        def is_refused() -> bool:
            plug.sendall(request)
            status, _, content = answers.next()
            assert status == 401 or content == np.rint(x).tobytes()
            return status == 401

        until(is_refused, 10)


@pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])
def test_sighup_has_keys_read_at_once_and_ends_no_service(workers: str, tmp_path: Path) -> None:
    """At no time: also a burst of signals."""
    keys = tmp_path / "keys"
    keys.write_text(digest(KEY))
    with Service("--workers", workers, "--api-keys-file", str(keys)) as service:
        keys.write_text(f"{digest(KEY)}\n{digest(OTHER)} second\n")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: service.counted("API keys: 2") == int(workers))
        assert statuses(service, OTHER) == {200}
        for _ in range(20):
            service.process.send_signal(signal.SIGHUP)
            assert service.get("/livez").status == 200
        assert service.process.poll() is None
