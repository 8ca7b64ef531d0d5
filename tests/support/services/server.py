"""A real service in a process of its own, on a real socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TextIO

from support import forking
from support.forking import Forked

Process = subprocess.Popen[bytes] | Forked
TESTS = Path(__file__).parents[2]
_RUNNING = re.compile(r"running on (?:https?://\[?(.+?)\]?:(\d+)(?!\S)|unix socket (\S+))")
#: Where a service on every address is reached.
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Reply:
    """An answer, whole."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @classmethod
    def read(cls, connection: http.client.HTTPConnection) -> Reply:
        """The answer to the request just sent."""
        response = connection.getresponse()
        return cls(response.status, response.headers, response.read())

    def json(self) -> Any:
        """The content as JSON."""
        return json.loads(self.content)


class Service:
    """``tensor-round-service`` with the given options; a context manager, once all workers serve.

    Leaving it sends SIGTERM and asserts that the process ends with exit code 0. Of its
    ``environment``, what is None is unset.
    """

    #: What is run; a module of tests is found, too.
    module = "tensor_round_service"
    #: How it is run.
    launch: ClassVar[Callable[[str, list[str], dict[str, str], int], Process]]

    def __init__(self, *options: str, environment: Mapping[str, str | None] | None = None) -> None:
        self.options = options
        self.environment = environment or {}
        self.host = "127.0.0.1"
        self.port = 0
        self.uds: str | None = None
        self.log: list[str] = []

    @property
    def url(self) -> str:
        return f"unix://{self.uds}" if self.uds else f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> int | str:
        """The port, or the Unix socket's path."""
        return self.uds or self.port

    @property
    def beside(self) -> Service:
        """METRICS_PORT, to ask it as a service."""
        (port,) = re.findall(r"\(metrics on port (\d+)\)", "".join(self.log))
        found = Service()
        found.host, found.port = self.host, int(port)
        return found

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> Service:
        self.process, errors = self._start()
        running: queue.Queue[re.Match[str] | None] = queue.Queue()
        threading.Thread(target=self._follow, args=(running, errors), daemon=True).start()
        found = running.get(timeout=60)
        assert found is not None, "the service did not start:\n" + "".join(self.log)
        if found[2]:
            self.host, self.port = _NEAR.get(found[1], found[1]), int(found[2])
        else:
            self.uds = found[3]
        self._wait_until_ready()
        if "--workers" in self.options:
            workers = int(self.options[self.options.index("--workers") + 1])
            until(lambda: workers == 1 or self.counted("serves") >= workers)
        return self

    def _start(self) -> tuple[Process, TextIO]:
        read, write = os.pipe()
        try:
            process = self.launch(self.module, self._options(), self._whole_environment(), write)
            return process, open(read)
        finally:
            os.close(write)

    def _options(self) -> list[str]:
        options = [*self.options]
        if not {"--port", "--uds"} & set(options):
            options += ["--port", "0"]
        return options

    def _whole_environment(self) -> dict[str, str]:
        # Tests say `Host: x`, which is no name of a loopback address.
        paths = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        both = {"TENSOR_ROUND_ALLOWED_HOSTS": "x", **os.environ, "PYTHONPATH": paths}
        both |= self.environment
        return {name: value for name, value in both.items() if value is not None}

    def _follow(self, running: queue.Queue[re.Match[str] | None], errors: TextIO) -> None:
        with errors as lines:
            for line in lines:
                self.log.append(line)
                if found := _RUNNING.search(line):
                    running.put(found)
        running.put(None)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.get("/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("the service did not get ready:\n" + "".join(self.log))

    def logged(self, text: str) -> str:
        """The first line of the log that has this text, once it is there."""
        deadline = time.monotonic() + 60
        while not (found := [line for line in self.log if text in line]):
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)
        return found[0]

    def counted(self, text: str) -> int:
        """How many lines of the log have this text."""
        return sum(text in line for line in self.log)

    def connect(self, timeout: float = 60) -> socket.socket:
        """A fresh connection to the service."""
        if self.uds:
            plug = socket.socket(socket.AF_UNIX)
            plug.settimeout(timeout)
            try:
                plug.connect(self.uds)
            except OSError:
                plug.close()
                raise
            return plug
        return socket.create_connection((self.host, self.port), timeout)

    def connection(self, timeout: float = 60) -> http.client.HTTPConnection:
        """A plain HTTP connection of the standard library's."""
        connection = http.client.HTTPConnection(self.host, self.port or None, timeout=timeout)
        connection.sock = self.connect(timeout)
        return connection

    def get(self, path: str) -> Reply:
        """GET on a connection of its own."""
        return self.request("GET", path)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | memoryview | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own."""
        with contextlib.closing(self.connection()) as connection:
            fields = dict(headers or {})
            chunked = "Transfer-Encoding" in fields
            # Refused early, a large body is not taken to its end; the answer says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, fields, encode_chunked=chunked)
            return Reply.read(connection)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples that have these labels."""
        from prometheus_client.parser import text_string_to_metric_families  # not everywhere

        return sum(
            sample.value
            for family in text_string_to_metric_families(self.get("/metrics").content.decode())
            for sample in family.samples
            if sample.name == f"tensor_round_{name}" and labels.items() <= sample.labels.items()
        )

    def rss(self) -> int:
        """Resident bytes of the process, once it is idle: at first it compiles kernels."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            before = self.busy_seconds()
            time.sleep(0.1)
            if self.busy_seconds() - before < 0.002:
                break
        return self._memory("VmRSS")

    def busy_seconds(self) -> float:
        """How long its threads have run on a core."""
        total = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # one that has just ended
                total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e9

    def descriptors(self) -> int:
        """How many file descriptors the process has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def peak_rss(self) -> int:
        """The most resident bytes that the process ever had."""
        return self._memory("VmHWM")

    def _memory(self, field: str) -> int:
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith(field))

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __exit__(self, *fault: object) -> None:
        if self.process.poll() is None:
            code = self.stop()
            assert code == 0, f"exit code {code} after SIGTERM:\n" + "".join(self.log)


def until(is_so: Callable[[], object], seconds: float = 60) -> None:
    """Wait until that is so, for so many seconds at most."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def started(
    module: str, options: list[str], environment: dict[str, str], errors: int
) -> subprocess.Popen[bytes]:
    """The module as a process of its own, whose errors go to that file."""
    command = [sys.executable, "-m", module, *options]
    return subprocess.Popen(command, stderr=errors, env=environment)


def forked(module: str, options: list[str], environment: dict[str, str], errors: int) -> Forked:
    """The same in less time, and without the extra ``compiled``."""
    with open(os.devnull, "r+b") as nothing:
        files = (nothing.fileno(), nothing.fileno(), errors)
        without = ("llvmlite",)  # for variants; workers have it from the module
        return forking.start(_plain(module), options, environment, files=files, without=without)


def started_plain(
    module: str, options: list[str], environment: dict[str, str], errors: int
) -> subprocess.Popen[bytes]:
    """A process of its own, without the extra ``compiled``."""
    return started(_plain(module), options, environment, errors)


def _plain(module: str) -> str:
    return "support.services.without_llvmlite" if module == "tensor_round_service" else module


Service.launch = staticmethod(started)


def tracebacks(log: list[str]) -> list[str]:
    """Each failure that the service did not foresee, with the lines after it."""
    starts = [at for at, line in enumerate(log) if line.startswith("Traceback")]
    return ["".join(log[start:end]) for start, end in pairwise([*starts, len(log)])]
