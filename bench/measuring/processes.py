"""Server processes of a run, and what /proc says of them and their descendants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .client import Address, connected

#: Where servers write what they have to say.
LOGS = Path("build/bench")
ALL_CORES = frozenset(os.sched_getaffinity(0))


class NotStarted(Exception):
    """A server does not listen; its log says why."""


class Server:
    """One server, which may be several processes, on an address of its own."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], address: Address) -> None:
        self.name = name
        self.address = address
        self._process = process

    def pin(self, cores: Iterable[int]) -> None:
        """Let every thread of it run on these cores only."""
        pin(self._process.pid, cores)

    def cpu_seconds(self) -> float:
        """What it has run so far, in user and kernel mode, in all threads."""
        total = 0
        for pid in family(self._process.pid):
            for thread in threads(pid):
                with suppress(OSError):
                    total += int(
                        Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]
                    )
        return total / 1e9

    def reset_peak(self) -> int:
        """Set the peak of its memory to what it uses now; that, in bytes."""
        reset_peaks(self._process.pid)
        return self._memory("VmRSS")

    def peak_bytes(self) -> int:
        """The most memory it has used since."""
        return self._memory("VmHWM")

    def _memory(self, field: str) -> int:
        return sum(status(pid)[field] << 10 for pid in family(self._process.pid))

    def stop(self) -> None:
        """End it, and whatever it started."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            # The group is this server's alone: it was started as a session's leader.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def pin(pid: int, cores: Iterable[int]) -> None:
    """Let every thread of a process and its descendants run on these cores only."""
    for member in family(pid):
        for thread in threads(member):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)


@contextmanager
def started(
    name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server that listens on the address which its command names.

    A free port takes the place of ``{port}`` there, the path of a Unix socket that of ``{uds}``.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    on_path = "{uds}" in command
    address: Address = str(LOGS / f"{name}.sock") if on_path else free_port()
    if on_path:
        Path(str(address)).unlink(missing_ok=True)
    log = LOGS / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [part.format(port=address, uds=address) for part in command],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(name, process, address)
    try:
        wait_until_listening(process, address, log)
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_until_listening(process: subprocess.Popen[bytes], address: Address, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with suppress(OSError):
            connected(address).close()
            return
        time.sleep(0.05)
    raise NotStarted(f"did not start; see {log}")


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for member in found:
        for thread in threads(member):
            with suppress(OSError):
                children = Path(f"/proc/{member}/task/{thread}/children").read_text()
                found += map(int, children.split())
    return found


def threads(pid: int) -> list[int]:
    """The threads of one process; none if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def status(pid: int) -> dict[str, int]:
    """The numbers of /proc/PID/status: counts, and kB of memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = {name: text.split() for name, text in (line.split(":", 1) for line in lines)}
    return {name: int(found[0]) for name, found in words.items() if found and found[0].isdigit()}


def reset_peaks(pid: int) -> None:
    """Set the peak of each process's memory to what it holds now."""
    for member in family(pid):
        with suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")
