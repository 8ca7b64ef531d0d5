"""Two services behind one balancer, by the files of deploy/: calls outlive both of them."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.clients import Load
from support.services.fronts import filled, free_port, nginx
from support.services.server import Service

DEPLOY = Path(__file__).parents[3] / "deploy"
CALLERS = 8
#: Seconds of load before and after each death of a service.
BETWEEN = 3.0
#: 64 KiB, with halves of both signs.
X = np.arange(-8192, 8192, dtype=np.float32) / 2


def behind_nginx(folder: Path, port: int, services: list[int]) -> AbstractContextManager[object]:
    """By deploy/nginx.conf with a line for each service."""
    told = {
        "server 127.0.0.1:8000 max_fails=0;": "\n".join(
            f"server 127.0.0.1:{each} max_fails=0;" for each in services
        ),
        "listen 80;": f"listen 127.0.0.1:{port};",
        "worker_processes auto;": "worker_processes 1;",
    }
    return nginx(filled((DEPLOY / "nginx.conf").read_text(), told), folder)


@contextmanager
def behind_haproxy(folder: Path, port: int, services: list[int]) -> Iterator[None]:
    """By deploy/haproxy.cfg."""
    told = {
        "bind :80": f"bind 127.0.0.1:{port}",
        "127.0.0.1:8000": f"127.0.0.1:{services[0]}",
        "127.0.0.1:8001": f"127.0.0.1:{services[1]}",
    }
    configuration = folder / "haproxy.cfg"
    configuration.write_text(filled((DEPLOY / "haproxy.cfg").read_text(), told))
    assert shutil.which("haproxy"), "haproxy is not installed"
    process = subprocess.Popen(["haproxy", "-f", configuration, "-db"], stderr=subprocess.DEVNULL)
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


@pytest.mark.parametrize("balancer", [behind_haproxy, behind_nginx])
def test_no_call_is_lost_while_services_are_killed_and_stopped(
    balancer: Callable[[Path, int, list[int]], AbstractContextManager[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--allowed-hosts", "localhost", "--drain-delay", "1")
    with ExitStack() as stack:
        services = [stack.enter_context(Service(*options)) for _ in range(2)]
        port, ports = free_port(), [service.port for service in services]
        stack.enter_context(balancer(tmp_path, port, ports))
        load = stack.enter_context(Load(f"http://127.0.0.1:{port}", CALLERS, X))
        time.sleep(BETWEEN)
        services[0].process.send_signal(signal.SIGKILL)
        services[0].process.wait(10)
        time.sleep(BETWEEN)
        again = stack.enter_context(Service(*options, "--port", str(ports[0])))
        time.sleep(BETWEEN)
        assert services[1].stop() == 0
        time.sleep(BETWEEN)
        before = sum(load.right)
        time.sleep(1)
        assert sum(load.right) > before, f"nothing answers: {load.faults}"
        assert again.process.poll() is None
        load.stop()
    with capsys.disabled():
        print(f" {balancer.__name__}: {sum(load.right)} calls, {len(load.faults)} lost", end="")
    assert load.faults == []
