"""``tensor-round-service ray`` on a cluster, and the processes of its replicas."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

#: Of each node of a cluster. One replica needs one CPU.
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


class Fleet:
    """``tensor-round-service ray`` with the given options; a context manager.

    Leaving it sends SIGTERM, and asserts that no process is left.
    """

    def __init__(self, address: str, *options: str, **environment: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"ray://127.0.0.1:{self.port}"
        self._address = address
        self.options, self.environment = options, environment
        self.log: list[str] = []

    def __enter__(self) -> Fleet:
        self.process = self.start(*self.options, **self.environment)
        self.wait_for(self.is_ready, "the fleet is ready", 100)
        return self

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        """Run the command, once more if it runs already."""
        variables = {f"TENSOR_ROUND_{name}": value for name, value in environment.items()}
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tensor_round_service", "ray"),
                *("--address", self._address, "--directory-port", str(self.port)),
                *("--health-period", "0.5", *options),
            ],
            env={**os.environ, **variables},
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()
        return process

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.log.append(line)

    def is_ready(self) -> bool:
        try:
            urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5).close()
        except OSError:  # of which HTTPError is one
            return False
        return True

    def urls(self) -> list[str]:
        """The addresses in the directory."""
        with urlopen(f"http://127.0.0.1:{self.port}/replicas", timeout=5) as response:
            return [replica["url"] for replica in json.load(response)["replicas"]]

    def wait_for_replicas(self, number: int, *, without: str = "") -> None:
        def are_there() -> bool:
            urls = self.urls()
            return len(urls) == number and without not in urls

        self.wait_for(are_there, f"{number} replicas are ready")

    def wait_for(self, condition: Callable[[], object], what: str, within: float = 60.0) -> None:
        """Wait for a condition; the log says why it is not reached."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not in {within} s: {what}\n{''.join(self.log)}"
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the controller."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM to the controller, which has to drain all replicas."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, "".join(self.log)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        self.wait_for(lambda: not services(), "no service is left", 10)


def variables_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(each.partition("=")[::2] for each in variables if each)


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid"))


def services() -> dict[str, int]:
    """The processes of all replicas' services, by their ports."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"tensor_round_service.fleet.child" in (folder / "cmdline").read_bytes():
                pid = int(folder.name)
                found[variables_of(pid)["TENSOR_ROUND_PORT"]] = pid
    return found


def service_of(url: str) -> int:
    """The process id of a replica's service."""
    return services()[url.rpartition(":")[2]]


def actor_of(url: str) -> int:
    """The process id of a replica's actor, whose parent is its node."""
    return parent_of(service_of(url))


def tree(root: int) -> set[int]:
    """The processes that one has started, itself included."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = parent_of(int(folder.name))
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> set[str]:
    """The addresses at which processes accept TCP connections, as in /proc/net."""
    own = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                own.add(os.readlink(descriptor))
    found = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = row.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in own:
                found.add(local.rpartition(":")[0])
    return found
