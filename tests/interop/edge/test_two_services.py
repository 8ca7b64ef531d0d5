"""Two services behind one balancer, by the files of deploy/: calls outlive both of them."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.services.server import Service

DEPLOY = Path(__file__).parents[3] / "deploy"
CALLERS = 8
#: Seconds of load before and after each death of a service.
BETWEEN = 3.0
#: 64 KiB, with halves of both signs.
X = np.arange(-8192, 8192, dtype=np.float32) / 2
EXPECTED = np.rint(X).tobytes()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def nginx(folder: Path, port: int, services: list[int]) -> list[str]:
    """The command, by deploy/nginx.conf with a line for each service."""
    text = (DEPLOY / "nginx.conf").read_text()
    lines = "\n".join(f"server 127.0.0.1:{each} max_fails=0;" for each in services)
    for old, new in (
        ("server 127.0.0.1:8000 max_fails=0;", lines),
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("worker_processes auto;", f"worker_processes 1; daemon off; pid {folder}/pid;"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    return ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "errors")]


def haproxy(folder: Path, port: int, services: list[int]) -> list[str]:
    """The command, by deploy/haproxy.cfg."""
    text = (DEPLOY / "haproxy.cfg").read_text()
    for old, new in (
        ("bind :80", f"bind 127.0.0.1:{port}"),
        ("127.0.0.1:8000", f"127.0.0.1:{services[0]}"),
        ("127.0.0.1:8001", f"127.0.0.1:{services[1]}"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "haproxy.cfg").write_text(text)
    return ["haproxy", "-f", str(folder / "haproxy.cfg"), "-db"]


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """The balancer, while the block runs."""
    assert shutil.which(command[0]), f"{command[0]} is not installed"
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        assert process.poll() is None, "the balancer did not start"
        yield
    finally:
        process.terminate()
        process.wait(10)


class Load:
    """Callers of one default client, each of whose results is checked; a context manager."""

    def __init__(self, url: str) -> None:
        self._client = tr.Client(url, connections=CALLERS)
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        self.right = 0
        self.faults: list[str] = []

    def _call(self) -> None:
        while not self._is_over.is_set():
            try:
                is_right = self._client.round(X).tobytes() == EXPECTED
            except tr.TensorRoundError as error:
                self.faults.append(f"{type(error).__name__}: {error}")
            else:
                self.right += is_right
                if not is_right:
                    self.faults.append("wrong")

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the load; services may stop only after this."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
        self._client.close()


@pytest.mark.parametrize("command_of", [haproxy, nginx])
def test_no_call_is_lost_while_services_are_killed_and_stopped(
    command_of: Callable[[Path, int, list[int]], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--allowed-hosts", "localhost", "--drain-delay", "1")
    with ExitStack() as stack:
        services = [stack.enter_context(Service(*options)) for _ in range(2)]
        port, ports = free_port(), [service.port for service in services]
        stack.enter_context(running(command_of(tmp_path, port, ports), port))
        load = stack.enter_context(Load(f"http://127.0.0.1:{port}"))
        time.sleep(BETWEEN)
        services[0].process.send_signal(signal.SIGKILL)
        services[0].process.wait(10)
        time.sleep(BETWEEN)
        again = stack.enter_context(Service(*options, "--port", str(ports[0])))
        time.sleep(BETWEEN)
        assert services[1].stop() == 0
        time.sleep(BETWEEN)
        before = load.right
        time.sleep(1)
        assert load.right > before, f"nothing answers: {load.faults}"
        assert again.process.poll() is None
        load.stop()
    with capsys.disabled():
        print(f" {command_of.__name__}: {load.right} calls, {len(load.faults)} lost", end="")
    assert load.faults == []
