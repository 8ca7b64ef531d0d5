"""TLS, client certificates, Unix sockets, keys: other ways to the same answers."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import AnyClient, answered
from support.http.proxy import Fault, Proxy, answer
from support.services.server import Service
from support.services.tls import CA, CLIENT, SERVER, TlsService


def server_context(*, asks_for_certificate: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SERVER)
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CA)
    return context


@pytest.fixture(scope="module")
def tls(service: Service) -> Iterator[Proxy]:
    with Proxy(service.address, tls=server_context(asks_for_certificate=False)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def mutual_tls(service: Service) -> Iterator[Proxy]:
    with Proxy(service.address, tls=server_context(asks_for_certificate=True)) as proxy:
        yield proxy


TRUSTING: dict[str, Any] = {
    "file": CA,
    "file-as-text": str(CA),
    "context": ssl.create_default_context(cafile=CA),
    "blindly": False,
}


@pytest.mark.parametrize("verify", TRUSTING.values(), ids=TRUSTING)
def test_tls_on_one_connection(kind: type[AnyClient], tls: Proxy, verify: Any) -> None:
    before = len(tls.seen)
    with kind(tls.url, verify=verify) as client:
        for size in (3, 100_000):
            x = patterns("float32", size)
            assert np.array_equal(bits(client.round(x)), expected_bits(x))
        y = x.copy()
        assert np.array_equal(bits(client.round(y, out=y)), expected_bits(x))
    assert len(tls.seen) == before + 1


@pytest.mark.parametrize(
    "cert", [CLIENT, str(CLIENT), (CLIENT, CLIENT)], ids=["path", "text", "pair"]
)
def test_a_client_certificate(kind: type[AnyClient], mutual_tls: Proxy, cert: Any) -> None:
    with kind(mutual_tls.url, verify=CA, cert=cert) as client:
        assert client.ready()
        x = patterns("float64", 1000)
        assert np.array_equal(bits(client.round(x)), expected_bits(x))


def test_connection_without_the_right_certificates_fails(
    kind: type[AnyClient], tls: Proxy, mutual_tls: Proxy
) -> None:
    for url, verify, why in (
        (tls.url, True, r"certificate.*verify="),
        (f"https://127.0.0.1:{tls.port}", CA, "127"),
        (mutual_tls.url, CA, "the service sent no response"),
    ):
        with kind(url, verify=verify) as client, pytest.raises(tr.ConnectionFailed, match=why):
            client.round(np.zeros(3, "f4"))


@pytest.mark.not_behind("unix", reason="TLS is for TCP")
def test_tls_where_plain_http_is_spoken(kind: type[AnyClient], service: Service) -> None:
    url = service.url.replace("http", "https")
    with kind(url, retries=0) as client, pytest.raises(tr.ConnectionFailed, match="http://"):
        client.round(np.zeros(3, "f4"))


@pytest.fixture(scope="module")
def unix_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service("--uds", str(tmp_path_factory.mktemp("uds") / "a.sock")) as running:
        yield running


def test_a_unix_socket(kind: type[AnyClient], unix_service: Service) -> None:
    with kind(unix_service.url, tile_bytes=4000) as client:
        assert client.ready()
        x = patterns("float32", 10_000)
        assert np.array_equal(bits(client.round(x)), expected_bits(x))


def test_no_unix_socket(kind: type[AnyClient], tmp_path: Path) -> None:
    with kind(f"unix://{tmp_path}/nothing") as client, pytest.raises(tr.ConnectionFailed):
        client.round(np.zeros(3, "f4"))


def test_keys_and_headers_go_with_every_request(kind: type[AnyClient], service: Service) -> None:
    refused = Fault(answer=answer("401 Unauthorized"))
    with (
        Proxy(None, lambda _: refused) as proxy,
        kind(proxy.url, api_key="s3cret", headers={"X-Trace": "7"}) as client,
    ):
        for call in (lambda: client.round(np.zeros(3, "f4")), client.operators, client.ready):
            with pytest.raises(tr.UnknownRefusal) as caught:
                call()
            assert caught.value.status == 401
            assert "s3cret" not in str(caught.value) + repr(client)
    for seen in proxy.seen:
        assert seen.headers()["authorization"] == "Bearer s3cret"
        assert seen.headers()["x-trace"] == "7"
        assert seen.headers()["user-agent"].startswith("tensor-round/")


def test_a_service_below_a_path(kind: type[AnyClient]) -> None:
    with Proxy(None, lambda _: Fault(answer=answer("404 Not Found"))) as proxy:
        with kind(f"{proxy.url}/numerics/v1/") as client, pytest.raises(tr.UnknownRefusal):
            client.round(np.zeros(3, "f4"))
        assert proxy.seen[0].request_line == "POST /numerics/v1/round HTTP/1.1"


def test_a_service_that_asks_for_keys(
    kind: type[AnyClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{hashlib.sha256(b's3cret').hexdigest()} tests\n")
    x = patterns("float32", 100)
    with Service("--api-keys-file", str(keys)) as guarded:
        with kind(guarded.url, api_key="s3cret") as client:
            assert np.array_equal(bits(client.round(x)), expected_bits(x))
        monkeypatch.setenv("TENSOR_ROUND_API_KEY", "s3cret")
        with kind(guarded.url) as client:
            assert np.array_equal(bits(client.round(x)), expected_bits(x))
        for wrong in ("guess", None):
            monkeypatch.delenv("TENSOR_ROUND_API_KEY", raising=False)
            with kind(guarded.url, api_key=wrong) as client:
                assert client.ready()
                with pytest.raises(tr.Unauthorized):
                    client.round(x)


def test_http_where_https_is_spoken(kind: type[AnyClient]) -> None:
    """By the service itself, and by a server that sends its alert."""
    with TlsService() as secure, kind(f"http://localhost:{secure.port}", retries=0) as client:
        for call in (client.operators, lambda: client.round(np.zeros(3, np.float32))):
            with pytest.raises(tr.TensorRoundError, match=r"the service may speak https://$"):
                call()
    alert = Fault(answer=b"\x15\x03\x01\x00\x02\x02\x46", early=True)
    with (
        answered(kind, alert) as client,
        pytest.raises(tr.ProtocolViolation, match=r"not HTTP: the service may speak https://$"),
    ):
        client.operators()


def test_a_service_that_has_answered_by_http_speaks_it(kind: type[AnyClient]) -> None:
    answers = Fault(answer=answer("200 OK", b"{}", "Content-Type: application/json"))
    with (
        Proxy(None, lambda number: Fault(answer=b"") if number else answers) as proxy,
        kind(proxy.url, retries=0) as client,
    ):
        client.operators()
        with pytest.raises(tr.ConnectionFailed, match=r"it closed the connection$"):
            client.operators()


@pytest.mark.not_behind("unix", reason="a socket's URL has no path behind it")
def test_a_url_that_goes_too_far_is_told_where_to_end(
    kind: type[AnyClient], service: Service
) -> None:
    for end, hint in (("/round", "; the URL should end before /round"), ("/numerics", "")):
        with kind(f"{service.url}{end}") as client:
            for path, call in (
                ("/operators", client.operators),
                ("/round", lambda: client.round(np.zeros(3, np.float32))),
            ):
                with pytest.raises(tr.NotFound) as caught:
                    call()
                assert str(caught.value).endswith(f': "{end}{path}"{hint}')
