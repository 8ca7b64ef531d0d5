"""SIGHUP has certificates and keys read again, in every worker, and ends no service."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.keys import digest
from support.services.server import Reply, Service
from support.services.tls import CA, CLIENT, SERVER, STRANGER, TlsService, caller_context
from support.services.workers import serving

ALONE_AND_TOGETHER = pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])


class ReloadedService(TlsService):
    """The service with a certificate in a file that changes."""

    def __init__(self, certificate: Path, *options: str) -> None:
        super().__init__(*options, caller=caller_context(CLIENT))
        self.options = ("--ssl-certfile", str(certificate), *options)

    def handshake(
        self, caller: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> bytes | None:
        """The service's certificate as a new connection sees it; None if it is not let in."""
        with (
            socket.create_connection((self.host, self.port), 10) as sock,
            contextlib.suppress(ssl.SSLError, ConnectionError),
            caller.wrap_socket(sock, server_hostname="localhost", session=session) as secure,
        ):
            # With TLS 1.3 the client's part of the handshake ends before it is judged.
            secure.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if response := secure.recv(1 << 16):
                assert response.startswith(b"HTTP/1.1 200 ")
                self.session, self.is_resumed = secure.session, secure.session_reused
                return secure.getpeercert(binary_form=True)
        return None


def anyone(certificate: Path | None = None) -> ssl.SSLContext:
    """A caller that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def within(seconds: float, what: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.02)


def der(path: Path) -> bytes:
    text = path.read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----", start)
    return ssl.PEM_cert_to_DER_cert(text[start:end] + "-----END CERTIFICATE-----\n")


def replaced(path: Path, by: Path) -> None:
    shutil.copy(by, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@ALONE_AND_TOGETHER
def test_a_new_certificate_is_that_of_new_connections(workers: str, tmp_path: Path) -> None:
    certificate = Path(shutil.copy(SERVER, tmp_path / "service.pem"))
    with ReloadedService(certificate, "--workers", workers) as service:
        within(30, lambda: workers == "1" or serving(service) == 2)
        assert service.handshake(anyone()) == der(SERVER)
        with contextlib.closing(service.connection()) as kept:
            kept.request("GET", "/livez")
            assert Reply.read(kept).status == 200
            replaced(certificate, STRANGER)
            service.process.send_signal(signal.SIGHUP)
            told = "the certificate was read again"
            within(30, lambda: sum(told in line for line in service.log) == int(workers))
            # The connection that was there goes on.
            kept.request("GET", "/livez")
            assert Reply.read(kept).status == 200
        assert {service.handshake(anyone()) for _ in range(8)} == {der(STRANGER)}

        # What cannot be used changes nothing, and is one line of each worker.
        certificate.write_text("no certificate")
        service.process.send_signal(signal.SIGHUP)
        told = "the previous certificate stays in effect"
        within(30, lambda: sum(told in line for line in service.log) == int(workers))
        assert {service.handshake(anyone()) for _ in range(4)} == {der(STRANGER)}
        replaced(certificate, SERVER)
        service.process.send_signal(signal.SIGHUP)
        within(30, lambda: service.handshake(anyone()) == der(SERVER))
    assert not any("Traceback" in line for line in service.log)


@pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda it: it.name
)
def test_authorities_of_clients_are_replaced_too(version: ssl.TLSVersion, tmp_path: Path) -> None:
    authorities = Path(shutil.copy(CA, tmp_path / "ca.pem"))
    with ReloadedService(SERVER, "--ssl-ca-certs", str(authorities)) as service:
        client = anyone(CLIENT)
        client.maximum_version = version
        assert service.handshake(client) == der(SERVER)
        session = service.session
        assert service.handshake(client, session) == der(SERVER)
        assert service.is_resumed
        assert service.handshake(anyone(STRANGER)) is None
        replaced(authorities, STRANGER)
        service.process.send_signal(signal.SIGHUP)
        within(30, lambda: any("read again" in line for line in service.log))
        assert service.handshake(anyone(STRANGER)) == der(SERVER)
        # An authority that is gone is no longer trusted.
        assert service.handshake(anyone(CLIENT)) is None
        # Nor do sessions from before outlive it.
        assert service.handshake(client, session) is None
        replaced(authorities, CA)
        service.process.send_signal(signal.SIGHUP)
        within(30, lambda: sum("read again" in line for line in service.log) == 2)


@ALONE_AND_TOGETHER
def test_keys_are_read_at_once(workers: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(digest("a") + "\n")
    with Service("--workers", workers, "--api-keys-file", str(keys)) as service:
        within(30, lambda: workers == "1" or serving(service) == 2)
        keys.write_text(digest("a") + "\n" + digest("b") + " second\n")
        service.process.send_signal(signal.SIGHUP)
        within(30, lambda: sum("API keys: 2" in line for line in service.log) == int(workers))
        statuses = {
            service.request("GET", "/operators", headers={"X-API-Key": "b"}).status
            for _ in range(6)
        }
        assert statuses == {200}


@ALONE_AND_TOGETHER
def test_it_ends_no_service(workers: str) -> None:
    """At no time: also a burst of signals, and one in its start."""
    with Service("--workers", workers) as service:
        for _ in range(20):
            service.process.send_signal(signal.SIGHUP)
            assert service.get("/livez").status == 200
        assert service.process.poll() is None
        os.kill(service.pid, signal.SIGHUP)
