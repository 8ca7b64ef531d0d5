"""The block of nginx in docs/deploy.md, before the directory of a fleet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.services.fronts import documented_server, free_port, nginx
from support.services.tls import CA, SERVER, TlsService
from tensor_round_service.fleet.directory import directory

X = patterns("float32", 10_000)


def test_clients_read_it_over_tls(tmp_path: Path) -> None:
    port = free_port()
    with TlsService() as service, directory("127.0.0.1", 0, lambda: [service.url], 1) as url:
        told = {
            "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "fleet.example": "localhost",
            "/etc/ssl/fleet.pem": str(SERVER),
            "/etc/ssl/fleet.key": str(SERVER),
            "http://127.0.0.1:8090": url,
        }
        with (
            nginx(documented_server(told, tmp_path), tmp_path),
            tr.Client(f"rays://localhost:{port}", verify=CA) as client,
        ):
            assert np.array_equal(bits(client.round(X)), expected_bits(X))
