"""The image's health check finds the service wherever its settings put it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.command_line import healthcheck
from support.services.server import Service


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0", "::1", "::"])
@pytest.mark.parametrize("names", [None, "round.example"])
def test_it_asks_at_the_host_of_the_settings(host: str, names: str | None) -> None:
    environment = {"TENSOR_ROUND_HOST": host, "TENSOR_ROUND_ALLOWED_HOSTS": names}
    with Service(environment=environment) as service:
        settings = {"HOST": host, "PORT": str(service.port)}
        assert healthcheck(**settings) == 0
    assert healthcheck(**settings) == 1


def test_it_asks_at_the_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "http.sock")
    with Service(environment={"TENSOR_ROUND_UDS": path}):
        assert healthcheck(UDS=path, HOST="127.0.0.9") == 0
    assert healthcheck(UDS=path) == 1


def test_silent_server_is_unhealthy() -> None:
    with socket.create_server(("127.0.0.2", 0)) as silent:
        assert healthcheck(HOST="127.0.0.2", PORT=str(silent.getsockname()[1])) == 1


def test_it_needs_no_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("0" * 64)
    environment = {"TENSOR_ROUND_API_KEYS_FILE": str(keys), "TENSOR_ROUND_METRICS_PORT": "0"}
    with Service(environment=environment) as service:
        assert service.get("/operators").status == 401
        assert healthcheck(PORT=str(service.port), API_KEYS_FILE=str(keys)) == 0
