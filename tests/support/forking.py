"""Processes that are forked from one that has imported the command line and the service.

Each has arguments, an environment, open files and an exit code of its own, without the half second
of a core that the imports take: tests start hundreds. Run as a module this is the one that forks.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, NoReturn

TESTS = Path(__file__).parents[1]
#: What takes the time; ``typer`` imports the second to say that a command is wrong.
IMPORTED = (
    "tensor_round_cli.app",
    "typer.rich_utils",
    "tensor_round_service.process.serve",
    "tensor_round_service.process.serving_process",
    "uvicorn.loops.uvloop",
    "tensor_round_verify.runtimes.arrays",
)


class Forked:
    """What :class:`subprocess.Popen` has of a process, but that it is no child of this one."""

    def __init__(self, pid: int, ends: int) -> None:
        self.pid = pid
        self._ends: int | None = ends
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; raises :class:`subprocess.TimeoutExpired` if it has none by then."""
        if self._ends is not None:
            if not select.select([self._ends], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._code = int(os.read(self._ends, 16))
            os.close(self._ends)
            self._ends = None
        assert self._code is not None
        return self._code

    def poll(self) -> int | None:
        """Its exit code, once it has one."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    module: str,
    arguments: list[str],
    environment: Mapping[str, str],
    *,
    files: tuple[int, int, int],
    folder: Path | None = None,
    without: tuple[str, ...] = (),
) -> Forked:
    """Run a module as ``python -m`` does; ``files`` are its input, output and errors.

    It can import nothing of ``without``.
    """
    order = {
        "module": module,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder or Path.cwd()),
        "without": without,
    }
    ends, told = os.pipe()
    try:
        return Forked(_forking().ask(order, (*files, told)), ends)
    finally:
        os.close(told)


class _Forking:
    """The process that forks, seen from here."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            paths = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.forking", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": paths},
            )
        atexit.register(self._end)

    def ask(self, order: Mapping[str, Any], files: tuple[int, ...]) -> int:
        """The process's id."""
        with self._lock:
            data = json.dumps(order).encode() + b"\n"
            sent = socket.send_fds(self._socket, [data], files)
            self._socket.sendall(data[sent:])
            return int(self._socket.recv(16))

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _forking() -> _Forking:
    return _Forking()


def _become(order: Mapping[str, Any], files: list[int]) -> NoReturn:
    """Be that module from here on, to the end of this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    sys.argv = [order["module"], *order["arguments"]]
    sys.path[0] = order["folder"]
    sys.modules |= dict.fromkeys(order["without"])  # type: ignore[arg-type]  # an import fails
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = _code_of(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):
        shutil.rmtree(get_temp_dir())  # as multiprocessing does at exit
    # To take the interpreter down would take longer than most of these processes live.
    os._exit(code)


def _code_of(end: SystemExit) -> int:
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return 1
    return end.code or 0


def make_service() -> None:
    """Make what each start of the service makes again: it keeps modules, files, known results."""
    from tensor_round_service.app import create_app
    from tensor_round_service.backends.cpu.backend import NumpyBackend
    from tensor_round_service.engine.engine import Engine
    from tensor_round_service.engine.readiness import rounds_correctly
    from tensor_round_service.settings import Settings

    engine = Engine(NumpyBackend(threads=1))
    create_app(Settings(), engine)
    assert rounds_correctly(engine.backend)
    engine.close()
    assert threading.active_count() == 1, "a child has no threads of its parent's"


def main() -> None:
    """Fork for each order; tell its process id, and its exit code when it has ended."""
    for name in IMPORTED:
        __import__(name)
    make_service()
    gc.freeze()  # so that a child's garbage collector does not copy all of this
    waker, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends: dict[int, int] = {}
    orders = socket.socket(fileno=int(sys.argv[1]))
    while True:
        ready = select.select([orders, waker], [], [])[0]
        if orders in ready:
            data, files, _, _ = socket.recv_fds(orders, 1 << 20, 4)
            while data and not data.endswith(b"\n"):
                data += orders.recv(1 << 20)
            if not data:
                return
            child = os.fork()
            if not child:
                _become(json.loads(data), files[:3])
            for file in files[:3]:
                os.close(file)
            ends[child] = files[3]
            orders.sendall(str(child).encode())
        if waker in ready:
            os.read(waker, 1024)
        _tell_of(ends)


def _tell_of(ends: dict[int, int]) -> None:
    """Tell the exit codes of those that have ended."""
    for child in [*ends]:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            end = ends.pop(child)
            with contextlib.suppress(BrokenPipeError):
                os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(end)


if __name__ == "__main__":
    main()
