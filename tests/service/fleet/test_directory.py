"""The directory on a real socket, and what a client makes of it."""

from __future__ import annotations

import json
import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

import tensor_round as tr
from support.services.hosted import HostedService
from tensor_round_service.fleet.directory import directory
from tensor_round_service.process.listener import CannotListen


def test_it_lists_the_replicas_that_are_ready_now() -> None:
    ready: list[str] = []
    with directory("127.0.0.1", 0, lambda: ready, least=2) as url:
        assert json.load(urlopen(f"{url}/replicas")) == {"replicas": []}
        assert urlopen(f"{url}/livez").status == 200
        ready.append("http://10.0.0.5:8000")
        with pytest.raises(HTTPError, match="503") as busy:
            urlopen(f"{url}/readyz")
        busy.value.close()
        ready.append("http://10.0.0.6:8000")
        assert urlopen(f"{url}/readyz").status == 200
        response = urlopen(f"{url}/replicas")
        assert json.load(response) == {"replicas": [{"url": each} for each in ready]}
        assert response.headers["x-content-type-options"] == "nosniff"
        with pytest.raises(HTTPError, match="404") as missing:
            urlopen(f"{url}/")
        missing.value.close()


def test_a_client_rounds_at_the_replicas_in_it() -> None:
    with HostedService() as one, HostedService() as other:
        urls = [one.url, other.url]
        with (
            directory("127.0.0.1", 0, lambda: urls, least=1) as url,
            tr.Client(url.replace("http", "ray")) as client,
        ):
            assert client.round(np.array([0.5, 1.5, -2.5])).tolist() == [0, 2, -2]


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{port}: address"),
            directory("127.0.0.1", port, list, least=1),
        ):
            pass
