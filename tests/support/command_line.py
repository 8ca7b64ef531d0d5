"""The command line as a process: its exit code, and what it prints.

It is forked from one that has imported what it needs, without the extra ``compiled``: with it
``local:`` compiles every kernel, which takes a second of a core for each command.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.forking import start


def command(
    *arguments: object,
    url: str | None = None,
    given: bytes = b"",
    folder: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TENSOR_ROUND")}
    if url is not None:
        environment["TENSOR_ROUND_URL"] = url
    env = {**kept, "COLUMNS": "200", "NO_COLOR": "1", **environment}
    return run([*map(str, arguments)], env, folder, given=given)


def said(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same command, with what it prints as text."""
    done = command(*arguments, **options)
    texts = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, *texts)


def run(
    arguments: list[str],
    environment: Mapping[str, str],
    folder: Path | None = None,
    *,
    given: bytes = b"",
    module: str = "tensor_round",
) -> subprocess.CompletedProcess[bytes]:
    """Run the module's command line in that folder, its input and outputs in files."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(given)
        files[0].seek(0)
        stdin, stdout, stderr = (file.fileno() for file in files)
        process = start(
            module,
            arguments,
            environment,
            files=(stdin, stdout, stderr),
            folder=folder,
            without=("llvmlite",),
        )
        try:
            code = process.wait(100)
        finally:
            process.kill()
        for file in files:
            file.seek(0)
        outputs = [file.read() for file in files[1:]]
    return subprocess.CompletedProcess([module, *arguments], code, *outputs)


_LIMITED = """
import resource, sys
from tensor_round_cli import app
lines = open('/proc/self/status').read().splitlines()
used = next(int(line.split()[1]) << 10 for line in lines if line[:6] == 'VmData')
most = resource.getrlimit(resource.RLIMIT_DATA)[1]
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv.pop(1)), most))
app.main()
"""


def limited(
    nbytes: int, *arguments: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a folder, whose private memory may grow by so many bytes."""
    return subprocess.run(
        [sys.executable, "-c", _LIMITED, str(nbytes), *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
    )


def good(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = command(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done


def bad(code: int, why: str, *arguments: object, **options: Any) -> str:
    done = command(*arguments, **options)
    errors = done.stderr.decode()
    assert done.returncode == code, (done.returncode, errors)
    assert why in " ".join(errors.split()), errors
    assert "Traceback" not in errors
    return errors


def healthcheck(**environment: str) -> int:
    """The exit code of the image's health check, with these settings."""
    settings = {f"TENSOR_ROUND_{name}": value for name, value in environment.items()}
    module = "tensor_round_service.process.healthcheck"
    return run([], {**os.environ, **settings}, module=module).returncode
