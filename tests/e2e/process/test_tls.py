"""TLS on a real socket: bodies of every way in, who is let into a handshake, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.command_line import healthcheck, run
from support.http.native_form import ieee754
from support.services.server import Reply
from support.services.tls import CA, CLIENT, ENCRYPTED, SERVER, STRANGER, TlsService, caller_context

RECEIVE_TIMEOUT = 2.0


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsService]:
    with TlsService("--receive-timeout", str(RECEIVE_TIMEOUT)) as running:
        yield running
    assert "Traceback" not in "".join(running.log)


@pytest.fixture(scope="module")
def mutual() -> Iterator[TlsService]:
    running = TlsService("--ssl-ca-certs", str(CA), caller=caller_context(CLIENT))
    with running:
        yield running
    assert "Traceback" not in "".join(running.log)


def send_round(connection: http.client.HTTPConnection, body: bytes, **headers: str) -> Reply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    fields["Operator-Descriptor"] = ieee754("uint8", [len(body)])
    chunked = "Transfer-Encoding" in fields
    pieces = [body[i : i + 100_000] for i in range(0, len(body), 100_000)]
    connection.request(
        "POST", "/round", pieces if chunked else body, fields, encode_chunked=chunked
    )
    return Reply.read(connection)


SIZES = [1, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 5 << 20, 0, 33 << 20, 7]


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_bodies_of_every_size_on_one_connection(tls: TlsService, framing: str) -> None:
    headers = {"Transfer_Encoding": "chunked"} if framing == "chunked" else {}
    with contextlib.closing(tls.connection()) as connection:
        plug = connection.sock
        for size in SIZES:
            body = np.random.default_rng(size).bytes(size)
            reply = send_round(connection, body, **headers)
            assert reply.status == 200, reply.content
            assert reply.content == body
        assert connection.sock is plug


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_requests_that_come_at_once_are_answered_in_order(tls: TlsService, size: int) -> None:
    bodies = [np.random.default_rng(seed).bytes(size) for seed in range(3)]
    head = (
        "POST /round HTTP/1.1\r\nHost: x\r\n"
        f"Operator-Descriptor: {ieee754('uint8', [size])}\r\nContent-Length: {size}\r\n\r\n"
    )

    async def pipelined() -> list[bytes]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", tls.port, ssl=tls.caller, server_hostname="localhost"
        )
        writer.write(b"".join(head.encode() + body for body in bodies))
        answers = []
        for _ in bodies:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            answers.append(await reader.readexactly(size))
        writer.close()
        await writer.wait_closed()
        return answers

    assert asyncio.run(asyncio.wait_for(pipelined(), 30)) == bodies


def test_a_body_in_small_records(tls: TlsService) -> None:
    body = np.random.default_rng(1).bytes(150_000)
    with contextlib.closing(tls.connection()) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", ieee754("uint8", [len(body)]))
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        for begin in range(0, len(body), 997):
            connection.send(body[begin : begin + 997])
        assert Reply.read(connection).content == body


def test_the_client(tls: TlsService) -> None:
    x = np.linspace(-9, 9, 300_000, dtype="f4")
    with tr.Client(tls.url, verify=CA, tile_bytes=200_000) as client:
        assert client.ready()
        assert (client.round(x) == np.rint(x)).all()
    with tr.Client(tls.url, retries=0) as client, pytest.raises(tr.ConnectionFailed):
        client.round(x)


def test_a_refused_upload_reads_why(tls: TlsService) -> None:
    for _ in range(3):
        reply = tls.request("POST", "/round", bytes(3 << 20), {"Operator-Descriptor": "{"})
        assert reply.json()["code"] == "malformed_json"


def test_tls_is_modern(tls: TlsService) -> None:
    with contextlib.closing(tls.connect()) as plug:
        assert isinstance(plug, ssl.SSLSocket)
        assert plug.version() == "TLSv1.3"
    old = caller_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", tls.port)) as raw,
        old.wrap_socket(raw, server_hostname="localhost") as plug,
    ):
        assert (plug.cipher() or ("",))[0].startswith("ECDHE-")


def test_tls_1_1_is_not_spoken(tls: TlsService) -> None:
    context = caller_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", tls.port), 10) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(raw, server_hostname="localhost")


def test_plain_http_gets_nothing(tls: TlsService) -> None:
    with socket.create_connection(("127.0.0.1", tls.port), 10) as raw:
        raw.sendall(b"GET /operators HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"dialects" not in raw.recv(1 << 16)


def test_a_silent_handshake_ends_in_time(tls: TlsService) -> None:
    with socket.create_connection(("127.0.0.1", tls.port), 10) as raw:
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(1) == b""
        assert RECEIVE_TIMEOUT - 0.5 < time.monotonic() - began < RECEIVE_TIMEOUT + 20


def test_with_a_client_certificate(mutual: TlsService) -> None:
    assert mutual.get("/livez").status == 200
    with contextlib.closing(mutual.connection()) as connection:
        for size in (1, 64 << 10, 5 << 20):
            body = np.random.default_rng(size).bytes(size)
            assert send_round(connection, body).content == body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("certificate", [None, STRANGER], ids=["none", "of-a-stranger"])
def test_without_the_right_one(
    mutual: TlsService, certificate: Path | None, version: ssl.TLSVersion
) -> None:
    context = caller_context(certificate)
    context.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        exchange(mutual, context)
    assert mutual.get("/livez").status == 200


def exchange(service: TlsService, context: ssl.SSLContext) -> None:
    """A request under this context; TLS 1.3 says no only to one who wants to read."""
    with (
        socket.create_connection(("127.0.0.1", service.port), 10) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as plug,
    ):
        plug.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        if not plug.recv(1000):
            raise ConnectionResetError


def test_keys_and_certificates_together(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("0" * 64)
    options = ["--ssl-ca-certs", str(CA), "--api-keys-file", str(keys), "--workers", "2"]
    with TlsService(*options, caller=caller_context(CLIENT)) as service:
        assert service.get("/livez").status == 200
        assert service.get("/operators").status == 401


def test_metrics_on_a_port_without_tls() -> None:
    with TlsService("--metrics-port", "0") as service:
        (port,) = re.findall(r"\(metrics on port (\d+)\)", "".join(service.log))
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(port))) as own:
            own.request("GET", "/metrics")
            assert b"tensor_round_bytes_in_flight " in own.getresponse().read()


def test_over_a_unix_socket(tmp_path: Path) -> None:
    with TlsService("--uds", str(tmp_path / "a.sock")) as service:
        assert service.get("/operators").status == 200


FAULTS = [
    ("missing", ["--ssl-certfile", "{tmp}/nothing"], 1, "No such file"),
    ("not-pem", ["--ssl-certfile", __file__], 1, "PEM"),
    ("no-key", ["--ssl-certfile", str(CA)], 1, "PEM"),
    ("other-key", ["--ssl-certfile", str(SERVER), "--ssl-keyfile", str(CLIENT)], 1, "mismatch"),
    ("encrypted", ["--ssl-certfile", str(ENCRYPTED)], 1, "encrypted"),
    ("no-ca", ["--ssl-certfile", str(SERVER), "--ssl-ca-certs", __file__], 1, "no certificates"),
    ("key-alone", ["--ssl-keyfile", str(SERVER)], 2, "TENSOR_ROUND_SSL_CERTFILE"),
    ("two-workers", ["--ssl-certfile", "{tmp}/nothing", "--workers", "2"], 1, "No such file"),
    ("ca-alone", ["--ssl-ca-certs", str(CA)], 2, "TENSOR_ROUND_SSL_CERTFILE"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "says"), [c[1:] for c in FAULTS], ids=[c[0] for c in FAULTS]
)
def test_no_start_without_good_files(
    tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    command = [option.format(tmp=tmp_path) for option in options]
    ended = run(["--port", "0", *command], os.environ, module="tensor_round_service")
    assert ended.returncode == code
    (told,) = ended.stderr.decode().splitlines()
    assert says.lower() in told.lower()


@pytest.mark.not_behind("unix", reason="it asks a TCP port first")
def test_the_images_healthcheck(tls: TlsService, mutual: TlsService, tmp_path: Path) -> None:
    certificate = {"SSL_CERTFILE": str(SERVER)}
    assert healthcheck(PORT=str(tls.port), **certificate) == 0
    assert healthcheck(PORT=str(mutual.port), SSL_CA_CERTS=str(CA), **certificate) == 0
    assert healthcheck(PORT=str(tls.port)) == 1
    with TlsService("--uds", str(tmp_path / "a.sock")) as unix:
        assert healthcheck(UDS=str(unix.uds), **certificate) == 0
