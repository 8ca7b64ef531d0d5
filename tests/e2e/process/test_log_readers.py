"""Whoever reads the log may stall or leave, or its disk be full: the service goes on, and ends."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.services.server import Reply, Service

#: Each makes a line of 8 KiB, so that a few hundred fill the pipe and all that may wait.
LONG = "/" + "x" * 8000
REQUESTS = 600
FORMATS = pytest.mark.parametrize("log_format", ["console", "json"])


class UnreadService(Service):
    """A service on a Unix socket, whose log goes to a file that this process need not read."""

    def __init__(self, folder: Path, errors: int, *options: str) -> None:
        socket = str(folder / "http.sock")
        super().__init__("--uds", socket, "--access-log", "true", *options)
        self.uds = socket
        self._errors = errors

    def __enter__(self) -> UnreadService:
        launch = type(self).launch
        self.process = launch(self.module, self._options(), self._whole_environment(), self._errors)
        self._wait_until_ready()
        return self


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def ask(service: Service, count: int = REQUESTS) -> None:
    for _ in range(0, count, 50):
        with contextlib.closing(service.connection()) as connection:
            for _ in range(50):
                connection.request("GET", LONG)
                assert Reply.read(connection).status == 404


def dropped(service: Service) -> int:
    families = text_string_to_metric_families(service.get("/metrics").content.decode())
    return sum(
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "tensor_round_log_lines_dropped_total"
    )


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def read_lines(read: int, last: str) -> list[str]:
    """The lines of a pipe up to one that contains that text."""
    content = b""
    while last.encode() not in content or not content.endswith(b"\n"):
        content += os.read(read, 1 << 16)
    return content.decode().splitlines()


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stalled_reader_stops_nothing(workers: str, log_format: str, tmp_path: Path) -> None:
    """SIGTERM ends the service, with its exit code, though nobody has read what it wrote."""
    options = ("--workers", workers, "--log-format", log_format)
    with pipe() as (_, write), UnreadService(tmp_path, write, *options) as service:
        ask(service)
        assert service.get("/livez").status == 200
        wait_until(lambda: dropped(service) > 0)


@pytest.mark.slow
@FORMATS
def test_a_reader_that_goes_on_is_told_what_it_lacks(log_format: str, tmp_path: Path) -> None:
    with (
        pipe() as (read, write),
        UnreadService(tmp_path, write, "--log-format", log_format) as service,
    ):
        ask(service)
        lost = dropped(service)
        assert 0 < lost < REQUESTS
        lines = read_lines(read, "lines of the log")
        service.get("/after")
        lines += read_lines(read, "/after")
        # The first scrape has a line itself, for which there may have been no room.
        assert lost <= dropped(service) <= lost + 1
        lost = dropped(service)
    notices = [line for line in lines if "lines of the log" in line]
    assert sum(int(re.findall(r"(\d+) lines of the log", line)[0]) for line in notices) == lost
    assert "WARNING:" in notices[0] or '"level": "warning"' in notices[0]
    # The probes have lines, too.
    assert REQUESTS - lost - 5 <= sum(LONG in line for line in lines) <= REQUESTS - lost + 5


@pytest.mark.parametrize("kind", ["full", "gone"])
def test_a_full_disk_or_no_reader_stops_nothing(kind: str, tmp_path: Path) -> None:
    """What cannot be written is counted as dropped."""
    with contextlib.ExitStack() as stack:
        if kind == "full":
            errors = stack.enter_context(open("/dev/full", "wb")).fileno()
        else:
            read, errors = os.pipe()
            os.close(read)
            stack.callback(os.close, errors)
        service = stack.enter_context(UnreadService(tmp_path, errors))
        ask(service, 100)
        wait_until(lambda: dropped(service) >= 100)
