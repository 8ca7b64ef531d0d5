"""API keys and TLS on a real socket.

Keys: before the body, on every face, changed while it serves. TLS: bodies of every way in, who is
let into a handshake, new certificates.
"""

from __future__ import annotations

import contextlib
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

import tensor_round as tr
from support.http.grpc_client import connected, framed
from support.http.native_form import Answers, ieee754, message, post, tensor
from support.keys import digest, needing
from support.services.server import Reply, Service, tracebacks, until
from support.services.tls import (
    CA,
    CLIENT,
    EXPIRED,
    SERVER,
    STRANGER,
    TlsService,
    caller_context,
)

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


def test_requests_are_counted_and_logged_by_the_label_of_their_key(tmp_path: Path) -> None:
    """Of every protocol, served or refused; not those of open paths, nor those without a key."""
    path = tmp_path / "keys"
    path.write_text(f"{digest(KEY)} alice\n{digest(OTHER)}\n")
    options = ("--api-keys-file", str(path), "--metrics-port", "0", "--access-log", "true")
    name, fields = "key_requests_total", {"X-API-Key": KEY}
    with Service(*options) as service:

        def counts() -> dict[str, float]:
            text = service.beside.get("/metrics").content.decode()
            return {key: float(n) for key, n in re.findall(rf'_{name}{{key="(.*)"}} (.*)', text)}

        assert counts() == {"alice": 0, "line 2": 0}
        assert service.request("GET", "/operators", None, fields).status == 200
        assert service.request("POST", "/round", b"", fields).status == 400
        assert post(service, ieee754("float32", [3]), X.tobytes(), X_API_Key=KEY).status == 200
        assert service.request("GET", "/livez", None, fields).status == 200
        assert service.get("/operators").status == 401
        assert counts() == {"alice": 3, "line 2": 0}
        with connected(service) as client:
            for content_type in ("application/grpc", "text/plain"):
                call = client.begin(
                    "ServerMetadata", ("x-api-key", OTHER), ("content-type", content_type)
                )
                client.send(call, framed(b""), ends=True)
                client.finish(call)
        assert counts() == {"alice": 3, "line 2": 2}
        path.write_text(f"{digest(KEY)} of-alice\n")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "of-alice" in counts())
        assert service.request("GET", "/operators", None, fields).status == 200
        assert counts() == {"alice": 3, "line 2": 2, "of-alice": 1}
        until(lambda: service.counted(' key="of-alice" ') == 1)
    assert (service.counted(' key="alice" '), service.counted(' key="line 2" ')) == (3, 2)
    assert service.counted(" key=") == 6


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
    options = ("--ssl-ca-certs", str(CA), "--metrics-port", "0")
    with TlsService(*options, caller=caller_context(CLIENT)) as running:
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
    assert b"tensor_round_bytes_in_flight " in tls.beside.get("/metrics").content


def test_probes_of_the_port_for_metrics_need_no_client_certificate(mutual: TlsService) -> None:
    for path in ("/livez", "/readyz"):
        assert mutual.beside.get(path).status == 200


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


def parts(path: Path) -> tuple[str, str]:
    """The certificate in a file, and the key behind it."""
    certificate, begin, key = path.read_text().partition("-----BEGIN PRIVATE KEY-----")
    return certificate, begin + key


@pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])
def test_changed_certificate_is_used_without_a_signal(workers: str, tmp_path: Path) -> None:
    """Its key is in another file, and changes later."""
    files = certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, text in zip(files, parts(SERVER), strict=True):
        file.write_text(text)
    options = ("--ssl-keyfile", str(key), "--workers", workers)
    with TlsService(*options, certificate=certificate) as service:
        name = "certificate_expiry_timestamp_seconds"
        assert service.metric(name) == ssl.cert_time_to_seconds("Oct 28 11:10:22 2126 GMT")
        certificate.write_text(parts(EXPIRED)[0])
        until(lambda: service.counted("mismatch; the previous") == int(workers))
        assert shown(service) == der(SERVER)
        key.write_text(parts(EXPIRED)[1])
        until(lambda: service.counted("reloaded the certificate") == int(workers))
        assert {shown(service) for _ in range(8)} == {der(EXPIRED)}
        warning = f"WARNING:  TLS: the certificate in {certificate} expired at 2020-01-02 00:00 UTC"
        assert service.counted(warning) == int(workers)
        service.caller = anyone()
        assert service.metric(name) == ssl.cert_time_to_seconds("Jan  2 00:00:00 2020 GMT")


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
