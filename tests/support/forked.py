"""``tensor-round`` as processes that are forked from one that has imported it.

Each is a process with arguments, files and an exit code of its own, without the half second of
a core that importing takes. Run as a module this is the process that forks.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def run(
    arguments: list[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run ``tensor-round`` in that folder, without input, and wait for its end."""
    with tempfile.TemporaryDirectory() as outputs:
        files = [str(Path(outputs) / name) for name in ("stdout", "stderr")]
        order = {
            "arguments": arguments,
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
            "files": files,
        }
        code = _forking().ask(order)
        stdout, stderr = (Path(file).read_bytes() for file in files)
    return subprocess.CompletedProcess(["tensor-round", *arguments], code, stdout, stderr)


class _Forking:
    """The process that forks, from this side."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "support.forked"]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        atexit.register(self._end)

    def ask(self, order: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.communicate()


@cache
def _forking() -> _Forking:
    return _Forking()


def _become(order: Mapping[str, Any]) -> int:
    """The exit code of ``tensor-round`` with these arguments, as this process."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    flags = os.O_WRONLY | os.O_CREAT
    for number, path in enumerate((os.devnull, *order["files"])):
        os.dup2(os.open(path, flags if number else os.O_RDONLY, 0o600), number)
    sys.argv = ["tensor-round", *order["arguments"]]
    sys.path[0] = order["folder"]
    try:
        runpy.run_module("tensor_round", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return 0


def _fork(order: Mapping[str, Any]) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    with contextlib.suppress(BaseException):
        code = _become(order)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Fork for each line of orders; tell the exit code of each."""
    import tensor_round.cli  # noqa: F401  # what takes the time, once

    for line in sys.stdin:
        print(_fork(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
