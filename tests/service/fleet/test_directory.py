"""The directory on a real socket, and what a client makes of it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
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


#: A directory in a process with few descriptors, which opens a file for each line that it reads.
FEW_DESCRIPTORS = """
import resource, sys
from tensor_round_service.fleet.directory import directory
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with directory("127.0.0.1", 0, lambda: ["http://10.0.0.5:8000"], 1) as url:
    print(url, flush=True)
    for _ in sys.stdin:
        with open("/dev/null"):
            print("opened", flush=True)
"""


def received(caller: socket.socket) -> bytes:
    try:
        return caller.recv(1)
    except ConnectionResetError:
        return b""


def test_silent_callers_take_neither_its_place_nor_its_descriptors() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FEW_DESCRIPTORS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        host, port = url.removeprefix("http://").split(":")
        with contextlib.ExitStack() as stack:
            silent: list[socket.socket] = []
            for _ in range(400):
                caller = stack.enter_context(socket.create_connection((host, int(port))))
                caller.sendall(b"GET /replicas HTTP/1.1\r\nHost: x\r\n")
                silent.append(caller)
            for _ in range(4):
                with urlopen(f"{url}/replicas", timeout=60) as response:
                    assert json.load(response) == {"replicas": [{"url": "http://10.0.0.5:8000"}]}
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "opened\n"
            # It made room, which is sooner than a head's time limit and its 408.
            assert received(silent[0]) == b""
        process.stdin.close()
    assert process.returncode == 0
