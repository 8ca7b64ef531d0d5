"""TLS on a real socket: bodies of every way in, who is let into a handshake, new certificates."""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import signal
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754
from support.keys import needing
from support.services.server import Reply, Service, tracebacks, until
from support.services.tls import CA, CLIENT, SERVER, STRANGER, TlsService, caller_context

RECEIVE_TIMEOUT = 1.0
VERSIONS = pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda it: it.name
)


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsService]:
    with TlsService("--receive-timeout", str(RECEIVE_TIMEOUT), "--metrics-port", "0") as running:
        yield running
    assert not tracebacks(running.log)


@pytest.fixture(scope="module")
def mutual() -> Iterator[TlsService]:
    with TlsService("--ssl-ca-certs", str(CA), caller=caller_context(CLIENT)) as running:
        yield running
    assert not tracebacks(running.log)


SIZES = [1, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 5 << 20, 0, 33 << 20, 7]


def test_bodies_of_every_size_come_on_one_connection(tls: TlsService) -> None:
    with contextlib.closing(tls.connection()) as connection:
        plug = connection.sock
        for size in SIZES:
            body = np.random.default_rng(size).bytes(size)
            fields = {"Operator-Descriptor": ieee754("uint8", [size])}
            connection.request("POST", "/round", body, fields)
            assert Reply.read(connection).content == body
        assert connection.sock is plug


def raw(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), 10)


def test_tls_is_1_3_or_1_2_with_forward_secrecy(tls: TlsService) -> None:
    with contextlib.closing(tls.connect()) as plug:
        assert isinstance(plug, ssl.SSLSocket)
        assert plug.version() == "TLSv1.3"
    old = caller_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with raw(tls) as sock, old.wrap_socket(sock, server_hostname="localhost") as plug:
        assert (plug.cipher() or ("",))[0].startswith("ECDHE-")
    older = caller_context()
    older.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw(tls) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
        older.wrap_socket(sock, server_hostname="localhost")


def test_plain_http_gets_nothing(tls: TlsService) -> None:
    with raw(tls) as sock:
        sock.sendall(b"GET /operators HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"dialects" not in sock.recv(1 << 16)


def test_silent_handshake_ends_in_time(tls: TlsService) -> None:
    with raw(tls) as sock:
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
        assert RECEIVE_TIMEOUT - 0.5 < time.monotonic() - began < RECEIVE_TIMEOUT + 20


def test_metrics_port_has_no_tls(tls: TlsService) -> None:
    (port,) = re.findall(r"\(metrics on port (\d+)\)", "".join(tls.log))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(port))) as own:
        own.request("GET", "/metrics")
        assert b"tensor_round_bytes_in_flight " in own.getresponse().read()


@VERSIONS
def test_only_the_right_client_certificate_is_let_in(
    mutual: TlsService, version: ssl.TLSVersion
) -> None:
    assert mutual.get("/livez").status == 200
    for certificate in (None, STRANGER):
        context = caller_context(certificate)
        context.maximum_version = version
        assert handshake(mutual, context) is None
    assert mutual.get("/livez").status == 200


@dataclass(frozen=True)
class Seen:
    """What a caller sees of a connection over which a request was served."""

    certificate: bytes | None
    session: ssl.SSLSession | None
    is_resumed: bool | None


def handshake(
    service: Service, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Seen | None:
    """A new connection; None if it is not let in."""
    with (
        raw(service) as sock,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(sock, server_hostname="localhost", session=session) as secure,
    ):
        # With TLS 1.3 the client's part of the handshake ends before it is judged.
        secure.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        if response := secure.recv(1 << 16):
            assert response.startswith(b"HTTP/1.1 200 ")
            certificate = secure.getpeercert(binary_form=True)
            return Seen(certificate, secure.session, secure.session_reused)
    return None


def anyone(certificate: Path | None = None) -> ssl.SSLContext:
    """A caller that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def shown(service: Service) -> bytes | None:
    """The service's certificate as a new connection sees it."""
    seen = handshake(service, anyone())
    return seen.certificate if seen else None


def der(path: Path) -> bytes:
    text = path.read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----", start)
    return ssl.PEM_cert_to_DER_cert(text[start:end] + "-----END CERTIFICATE-----\n")


def replaced(service: Service, path: Path, by: Path) -> None:
    """Replace a file, and have the service read it."""
    shutil.copy(by, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    service.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])
def test_sighup_has_new_connections_see_a_new_certificate(workers: str, tmp_path: Path) -> None:
    certificate = Path(shutil.copy(SERVER, tmp_path / "service.pem"))
    with TlsService("--workers", workers, certificate=certificate) as service:
        assert shown(service) == der(SERVER)
        with contextlib.closing(service.connection()) as kept:
            kept.request("GET", "/livez")
            assert Reply.read(kept).status == 200
            replaced(service, certificate, STRANGER)
            until(lambda: service.counted("reloaded the certificate") == int(workers))
            # The connection that was there goes on.
            kept.request("GET", "/livez")
            assert Reply.read(kept).status == 200
        assert {shown(service) for _ in range(8)} == {der(STRANGER)}

        # What cannot be used changes nothing, and is one line of each worker.
        certificate.write_text("no certificate")
        service.process.send_signal(signal.SIGHUP)
        stays = "the previous certificate stays in effect"
        until(lambda: service.counted(stays) == int(workers))
        assert {shown(service) for _ in range(4)} == {der(STRANGER)}
        replaced(service, certificate, SERVER)
        until(lambda: shown(service) == der(SERVER))
    assert not tracebacks(service.log)


@VERSIONS
def test_sighup_replaces_authorities_of_clients_too(
    version: ssl.TLSVersion, tmp_path: Path
) -> None:
    authorities = Path(shutil.copy(CA, tmp_path / "ca.pem"))
    options = ("--ssl-ca-certs", str(authorities))
    with TlsService(*options, caller=caller_context(CLIENT)) as service:
        client = anyone(CLIENT)
        client.maximum_version = version
        first = handshake(service, client)
        assert first is not None
        again = handshake(service, client, first.session)
        assert again is not None
        assert again.is_resumed
        assert handshake(service, anyone(STRANGER)) is None
        replaced(service, authorities, STRANGER)
        until(lambda: service.counted("reloaded the certificate") == 1)
        assert handshake(service, anyone(STRANGER)) is not None
        # An authority that is gone is no longer trusted.
        assert handshake(service, anyone(CLIENT)) is None
        # Nor do sessions from before outlive it.
        assert handshake(service, client, again.session) is None


def test_keys_are_needed_beside_client_certificates(tmp_path: Path) -> None:
    options = ["--ssl-ca-certs", str(CA), *needing(tmp_path, "secret"), "--workers", "2"]
    with TlsService(*options, caller=caller_context(CLIENT)) as service:
        assert service.get("/livez").status == 200
        assert service.get("/operators").status == 401
