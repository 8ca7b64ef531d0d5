"""What may stand between callers and the service: nothing, nginx, a Unix socket, or both."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from support.services.server import Service

CONFIGURATION = Path(__file__).parents[3] / "deploy" / "nginx.conf"
#: Debian has it where not everybody looks.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


class UnixService(Service):
    """The service on a Unix socket."""

    def __init__(self, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="round-")
        super().__init__("--uds", f"{self._folder.name}/http.sock", *options)

    def __exit__(self, *fault: object) -> None:
        super().__exit__(*fault)
        self._folder.cleanup()


@contextlib.contextmanager
def nginx(text: str, folder: Path) -> Iterator[Path]:
    """Run nginx, which listens by now; yields its log, in which nothing may be found wrong."""
    program = shutil.which("nginx", path=_PATH)
    assert program, "nginx is not installed; on Debian: apt-get install nginx-light"
    configuration, log = folder / "nginx.conf", folder / "error.log"
    configuration.write_text(text)
    # As root it would become somebody who may not write here.
    settings = f"daemon off; pid {folder}/pid;" + " user root;" * (os.geteuid() == 0)
    command = [program, "-p", folder, "-c", configuration, "-e", log, "-g", settings]
    with subprocess.Popen(command) as process:
        # It writes the file once it listens.
        while process.poll() is None and not (folder / "pid").exists():
            time.sleep(0.01)
        try:
            yield log
        finally:
            process.send_signal(signal.SIGQUIT)  # it ends when its requests are over
        assert process.wait(60) == 0
    found = re.findall(r"^.*\[(?:emerg|alert|crit)\].*$", log.read_text(), re.M)
    assert not found, "\n".join(found)


def filled(text: str, told: dict[str, str]) -> str:
    """The text with these in the places of those, each of which stands in it."""
    for part, here in told.items():
        assert part in text, f"no {part!r}"
        text = text.replace(part, here)
    return text


def free_port() -> int:
    """A port of 127.0.0.1 without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def temporary_paths(folder: Path) -> list[str]:
    """The settings that have nginx keep its temporary files in a folder."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return [f"{kind}_temp_path {folder}/{kind};" for kind in kinds]


class NginxService(Service):
    """A service behind nginx, as deploy/nginx.conf has it; callers see nginx's port.

    ``buffering`` is what the file advises against: bodies and answers wait in nginx.
    """

    def __init__(self, *options: str, buffering: bool = False, unix: bool = False) -> None:
        super().__init__()
        self._behind = (UnixService if unix else Service)(*options)
        self._buffering = buffering
        self._folder = tempfile.TemporaryDirectory(prefix="round-nginx-")

    def __enter__(self) -> NginxService:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(self._folder))
            stack.enter_context(self._behind)
            self.process, self.log = self._behind.process, self._behind.log
            self.port = free_port()
            stack.enter_context(nginx(self._configuration(), folder))
            self._wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def _configuration(self) -> str:
        places = temporary_paths(Path(self._folder.name))
        behind = self._behind
        upstream = f"unix:{behind.uds}" if behind.uds else f"127.0.0.1:{behind.port}"
        told = {
            "http {\n": "\n    ".join(("http {", *places, "")),
            "server 127.0.0.1:8000 ": f"server {upstream} ",
            "listen 80;": f"listen 127.0.0.1:{self.port};",
        }
        if self._buffering:
            directives = ("proxy_buffering", "proxy_request_buffering")
            told |= {f"{each} off;": f"{each} on;" for each in directives}
        return filled(CONFIGURATION.read_text(), told)

    def __exit__(self, *fault: object) -> None:
        self._stack.close()


#: How to start a service with options, by what stands before it.
Front = Callable[..., Service]
DIRECT: Front = Service
FRONTS: dict[str, Front] = {
    "nginx": NginxService,
    "nginx-buffering": partial(NginxService, buffering=True),
    "nginx-unix": partial(NginxService, unix=True),
    "unix": UnixService,
}
