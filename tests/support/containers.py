"""Containers of the images that `make images` has built, with no rights."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENGINE = os.environ["CONTAINER_ENGINE"]
#: As docker-compose.yml has it.
HARDENED = [
    "--read-only",
    "--tmpfs=/tmp",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--memory=512m",
]
if Path(ENGINE).name == "podman":  # which else mounts /run and /var/tmp, too
    HARDENED.append("--read-only-tmpfs=false")


def engine(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ENGINE, *arguments], capture_output=True, text=True, timeout=120)


class Container:
    """A running container."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = [f"--env=TENSOR_ROUND_{name}={value}" for name, value in environment.items()]
        return engine("exec", *variables, self.name, *command)

    def python(self, code: str) -> str:
        done = self.run("python3", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def url(self) -> str:
        """Where a published container is reached from outside."""
        return f"http://{engine('port', self.name, '8000/tcp').stdout.strip()}"

    def state(self) -> dict[str, Any]:
        (found,) = json.loads(engine("inspect", self.name).stdout)
        state: dict[str, Any] = found["State"]
        return state

    def log(self) -> str:
        done = engine("logs", self.name)
        return done.stdout + done.stderr

    def is_healthy(self, **environment: str) -> bool:
        """Whether the image's own health check, as the engine would run it, succeeds."""
        (found,) = json.loads(engine("inspect", self.name).stdout)
        kind, *command = found["Config"]["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.run(*command, **environment).returncode == 0

    def wait(self) -> None:
        """Until it is healthy."""
        end = time.monotonic() + 30
        while not self.is_healthy():
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)


@contextmanager
def started(
    image: str, *mounted: Path, published: bool = False, **environment: str
) -> Iterator[Container]:
    """A container of the image; files are mounted under their own names in /mnt.

    Where it is published its port is one of 127.0.0.1; else it has no network.
    """
    flags = ["--publish=127.0.0.1::8000" if published else "--network=none"]
    flags += [f"--env=TENSOR_ROUND_{name}={value}" for name, value in environment.items()]
    flags += [f"--volume={path}:/mnt/{path.name}:ro" for path in mounted]
    done = engine("run", "--detach", *HARDENED, *flags, image)
    assert done.returncode == 0, done.stderr
    container = Container(done.stdout.split()[-1])
    try:
        yield container
    finally:
        engine("rm", "--force", container.name)
