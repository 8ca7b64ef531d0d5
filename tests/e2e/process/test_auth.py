"""API keys on a real socket: before the body, on every face, changed while it serves."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.command_line import run
from support.http.native_form import ieee754, post
from support.services.server import Reply, Service

KEY, OTHER = "s3cret-of-alice", "s3cret-of-bob"
X = np.array([0.5, 1.5, -2.5], "<f4")


def line(key: str, rest: str = "") -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()} {rest}\n"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(line(KEY, "alice"))
    with Service("--api-keys-file", str(path)) as running:
        yield running
    assert "s3cret" not in "".join(running.log)


def test_a_key_opens_and_none_does_not(locked: Service) -> None:
    descriptor = ieee754("float32", [3])
    good = post(locked, descriptor, X.tobytes(), X_API_Key=KEY)
    assert good.content == np.rint(X).tobytes()
    assert post(locked, descriptor, X.tobytes(), Authorization=f"Bearer {KEY}").status == 200
    refused = post(locked, descriptor, X.tobytes(), Authorization=f"Bearer {OTHER}")
    assert refused.status == 401
    assert refused.json()["code"] == "unauthorized"
    assert OTHER.encode() not in refused.content
    assert locked.get("/livez").status == locked.get("/readyz").status == 200
    assert locked.get("/operators").status == 401
    assert locked.get("/docs").status == locked.get("/openapi.json").status == 200


def test_the_client_with_and_without(locked: Service) -> None:
    with tr.Client(locked.url, api_key=KEY) as client:
        assert (client.round(X) == np.rint(X)).all()
    with tr.Client(locked.url) as client:
        assert client.ready()
        with pytest.raises(tr.Unauthorized):
            client.round(X)


def test_the_answer_comes_before_the_body(locked: Service) -> None:
    with contextlib.closing(locked.connection(timeout=20)) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", "no JSON at all")
        connection.putheader("Content-Length", str(10 << 30))
        connection.endheaders()
        assert Reply.read(connection).status == 401


def test_nobody_without_a_key_is_asked_to_go_on(locked: Service) -> None:
    with contextlib.closing(locked.connect(timeout=20)) as plug:
        plug.sendall(
            b"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n"
        )
        assert plug.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_head_request_is_refused_without_a_body(locked: Service) -> None:
    with contextlib.closing(locked.connection(timeout=20)) as connection:
        for _ in range(2):  # a body would be taken for the second answer
            connection.request("HEAD", "/operators")
            assert Reply.read(connection).status == 401
        connection.request("GET", "/operators", headers={"X-API-Key": KEY})
        assert Reply.read(connection).status == 200


def test_large_upload_without_a_key_reads_its_refusal(locked: Service) -> None:
    payload = memoryview(bytes(6 << 20))
    for _ in range(5):
        reply = post(locked, ieee754("uint8", [len(payload)]), payload)
        assert reply.json()["code"] == "unauthorized"


def test_every_worker_learns_of_a_change(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(line(KEY, "alice"))
    with Service("--api-keys-file", str(path), "--workers", "2") as service:
        assert statuses(service, KEY) == {200}
        assert statuses(service, OTHER) == {401}

        path.write_text(line(OTHER, "bob"))
        wait_until(lambda: statuses(service, KEY) == {401})
        assert statuses(service, OTHER) == {200}

        path.write_text("s3cret-by-mistake")
        # Each worker looks at the file when it is asked, and says so once.
        wait_until(lambda: statuses(service, OTHER) == {200} and refused_files(service) == 2)

        (tmp_path / "new").write_text(line(KEY, "alice") + line(OTHER, "bob 2020-02-29"))
        (tmp_path / "new").replace(path)
        wait_until(lambda: statuses(service, OTHER) == {401})
        assert statuses(service, KEY) == {200}
    assert "s3cret" not in "".join(service.log)


def wait_until(is_so: Callable[[], bool]) -> None:
    """A change is learnt of within two seconds, if the machine has time for the workers."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def refused_files(service: Service) -> int:
    return "".join(service.log).count("line 1: does not begin with the 64 hex digits")


def statuses(service: Service, key: str) -> set[int]:
    """What this key is answered, on enough connections to meet every worker."""
    return {service.request("GET", "/operators", headers={"X-API-Key": key}).status
            for _ in range(20)}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says", "workers"),
    [(None, "no such file", "1"), ("s3cret", "line 1", "1"), ("s3cret", "line 1", "2")],
    ids=["missing", "broken", "broken-for-two"],
)
def test_no_start_without_a_good_file(
    tmp_path: Path, content: str | None, says: str, workers: str
) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    options = ["--api-keys-file", str(path), "--workers", workers, "--port", "0"]
    ended = run(options, os.environ, module="tensor_round_service")
    assert ended.returncode == 1
    (told,) = ended.stderr.decode().splitlines()
    assert says in told
    assert "s3cret" not in told


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (["--host", "0.0.0.0"], True),
        (["--host", "0.0.0.0", "--workers", "2"], True),
        (["--host", "0.0.0.0", "--api-keys-file", "KEYS"], False),
        (["--host", "127.0.0.1"], False),
        (["--uds", "SOCKET"], False),
    ],
    ids=str,
)
def test_without_keys_a_service_that_others_reach_has_a_warning(
    options: list[str], warns: bool, tmp_path: Path
) -> None:
    (tmp_path / "KEYS").write_text(line(KEY))
    paths = {name: str(tmp_path / name) for name in ("KEYS", "SOCKET")}
    with Service(*(paths.get(option, option) for option in options)) as service:
        pass
    found = [each for each in service.log if "set API_KEYS_FILE or" in each]
    assert len(found) == warns
    assert all(each.startswith("WARNING:") and "HOST 0.0.0.0" in each for each in found)
