"""``ray://``: the addresses of a fleet come from its directory, and change under load."""

from __future__ import annotations

import http.server
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from support.services.tls import CA, SERVER, TlsService
from tensor_round.transport import several as directories

X = patterns("float32", 10_000)
EXPECTED = expected_bits(X)


class Controller(http.server.ThreadingHTTPServer):
    """Serves ``document`` at ``/replicas``, and counts its readers; what is None is 503."""

    def __init__(self, *urls: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.document: Any = None
        self.reads = 0
        self.keys: set[str | None] = set()
        self.lists(*urls)

    def lists(self, *urls: str) -> None:
        replicas = [{"url": url, "node": "n1"} for url in urls]
        self.document = {"replicas": replicas, "generation": 3}

    @property
    def url(self) -> str:
        return f"ray://127.0.0.1:{self.server_port}"

    def speak_tls(self) -> str:
        """Have a certificate; the URL by which it is read."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(SERVER)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        return f"rays://localhost:{self.server_port}"

    def __enter__(self) -> Controller:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Controller

    def do_GET(self) -> None:
        assert self.path == "/replicas"
        self.server.reads += 1
        self.server.keys.add(self.headers["Authorization"])
        body = json.dumps(self.server.document).encode()
        self.send_response(503 if self.server.document is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(directories, "URGENT_SECONDS", 0.01)


@pytest.fixture
def proxies(service: Service) -> Iterator[tuple[Proxy, Proxy]]:
    with Proxy(service.address) as first, Proxy(service.address) as second:
        yield first, second


def assert_right(client: AnyClient, calls: int = 4) -> None:
    for _ in range(calls):
        assert np.array_equal(bits(client.round(X)), EXPECTED)


def test_replicas_come_and_go_under_load(proxies: tuple[Proxy, Proxy]) -> None:
    first, second = proxies
    ends = threading.Event()
    with (
        Controller(first.url) as controller,
        ThreadPoolExecutor(8) as threads,
        tr.Client(controller.url, api_key="key") as client,
    ):

        def work(_: int) -> None:
            while not ends.is_set():
                assert_right(client, 1)

        working = [threads.submit(work, number) for number in range(8)]
        try:
            wait_until(lambda: first.open_now > 0)
            controller.lists(first.url, second.url)
            wait_until(lambda: second.open_now > 0)
            controller.lists(second.url)
            # Its requests end, and its connections are closed.
            wait_until(lambda: first.open_now == 0)
            assert urls(client) == {second.url}
            controller.lists(first.url)
            wait_until(lambda: second.open_now == 0)
        finally:
            ends.set()
            for each in working:
                each.result(30)
        assert controller.keys == {"Bearer key"}


def urls(client: tr.Client) -> set[str]:
    """The addresses in use."""
    transport: Any = client._session.transport
    return set(transport.balancer.endpoints)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    "document", [None, [], {}, {"replicas": []}, {"replicas": [{}]}, {"replicas": [{"url": "x"}]}]
)
def test_without_its_directory_a_client_uses_the_last_list(
    kind: type[AnyClient],
    service: Service,
    document: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "tensor_round")
    with Controller(service.url) as controller, kind(controller.url) as client:
        assert_right(client)
        controller.document = document
        for _ in range(3):
            time.sleep(0.06)
            assert_right(client)
        assert controller.reads >= 4
        (message,) = caplog.messages
        assert message.startswith(controller.url)
        assert message.endswith("the last list is used")
        controller.lists(service.url)
        time.sleep(0.06)
        assert_right(client)


def test_a_directory_that_is_not_there_is_named(kind: type[AnyClient]) -> None:
    with Controller() as gone:
        pass
    with kind(gone.url, retries=1) as client:
        with pytest.raises(tr.ConnectionFailed, match=f"^{gone.url}: cannot connect"):
            client.round(X)
        assert not client.ready()


def test_a_fleet_without_replicas_is_waited_for(kind: type[AnyClient], service: Service) -> None:
    with Controller() as controller, kind(controller.url, retries=5) as client:
        assert not client.ready()
        timer = threading.Timer(0.2, controller.lists, [service.url])
        timer.start()
        assert_right(client)
        assert client.ready()


def test_the_list_is_read_when_it_is_old_and_at_no_other_time(
    kind: type[AnyClient], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "REFRESH_SECONDS", 60.0)
    with Controller(service.url) as controller, kind(controller.url) as client:
        assert_right(client, 10)
        assert controller.reads == 1


def test_a_directory_without_an_open_address_is_read_sooner(
    kind: type[AnyClient], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "REFRESH_SECONDS", 60.0)
    cuts = Fault(cut_down=0)
    with (
        Proxy(service.address, lambda _: cuts) as broken,
        Controller(broken.url) as controller,
        kind(controller.url, retries=0) as client,
    ):
        with pytest.raises(tr.ConnectionFailed):
            client.round(X)
        controller.lists(service.url)
        time.sleep(0.02)
        assert_right(client)


def test_of_a_large_fleet_a_client_uses_a_part_and_keeps_it() -> None:
    with Service("--host", "0.0.0.0") as service, Controller() as controller:
        # One service by many of its names.
        many = {f"http://127.0.{n // 250}.{n % 250 + 1}:{service.port}" for n in range(2000)}
        controller.lists(*many)
        with tr.Client(controller.url) as client:
            assert client.operators()
            used = urls(client)
            assert len(used) == directories.MAX_ADDRESSES
            gone = set(sorted(used)[:10])
            controller.lists(*(many - gone))
            time.sleep(0.06)
            assert client.operators()
            assert urls(client) > used - gone
            assert len(urls(client)) == directories.MAX_ADDRESSES


def test_a_lying_directory_gets_no_key_out_of_its_network(
    kind: type[AnyClient], service: Service
) -> None:
    # 127.1 is a name of this machine, which could as well be one of any other.
    with Proxy(service.address) as elsewhere, Controller(elsewhere.url) as controller:
        url = f"ray://127.1:{controller.server_port}"
        for secret in ({"api_key": "secret"}, {"headers": {"X-API-Key": "secret"}}):
            with (
                kind(url, **secret) as client,
                pytest.raises(tr.ProtocolViolation, match=f"^{url}: .* gets no API key"),
            ):
                client.round(X)
        assert elsewhere.open_most == 0
        with kind(url) as client:
            assert_right(client)


def test_a_directory_names_no_sockets_of_the_callers_machine(
    kind: type[AnyClient], tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as victim, Controller(f"unix://{path}") as controller:
        victim.bind(str(path))
        victim.listen()
        victim.settimeout(0)
        with (
            kind(controller.url, retries=0) as client,
            pytest.raises(tr.ProtocolViolation, match="a replica has no http or https url"),
        ):
            client.round(X)
        with pytest.raises(BlockingIOError):
            victim.accept()


def test_a_directory_by_tls(kind: type[AnyClient], service: Service) -> None:
    with TlsService() as secure, Controller(secure.url) as controller:
        url = controller.speak_tls()
        with kind(url, verify=CA, api_key="key") as client:
            assert_right(client)
        controller.lists(secure.url, service.url)
        with (
            kind(url, verify=CA) as client,
            pytest.raises(tr.ProtocolViolation, match="is not https, as rays:// demands"),
        ):
            client.round(X)
