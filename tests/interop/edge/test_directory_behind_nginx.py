"""The block of nginx in docs/deploy.md, before the directory of a fleet."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import numpy as np

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.services.fronts import nginx, temporary_paths
from support.services.tls import CA, SERVER, TlsService
from tensor_round_service.fleet.directory import directory

PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"
X = patterns("float32", 10_000)


def test_clients_read_it_over_tls(tmp_path: Path) -> None:
    blocks = re.findall(r"```nginx\n(server {.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 1
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TlsService() as service, directory("127.0.0.1", 0, lambda: [service.url], 1) as url:
        server = blocks[0]
        for told, here in {
            "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "fleet.example": "localhost",
            "/etc/ssl/fleet.pem": str(SERVER),
            "/etc/ssl/fleet.key": str(SERVER),
            "http://127.0.0.1:8090": url,
        }.items():
            assert server.count(told) == 1, told
            server = server.replace(told, here)
        content = "\n".join([*temporary_paths(tmp_path), "access_log off;", server])
        with (
            nginx(f"events {{}}\nhttp {{\n{content}\n}}\n", tmp_path),
            tr.Client(f"rays://localhost:{port}", verify=CA) as client,
        ):
            assert np.array_equal(bits(client.round(X)), expected_bits(X))
