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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from support.services.server import Service

CONFIGURATION = Path(__file__).parents[3] / "deploy" / "nginx.conf"
#: Debian has it where not everybody looks.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


class UnixService(Service):
    """The service on a Unix socket."""

    def __init__(self, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="round-")
        super().__init__("--uds", f"{self._folder.name}/http.sock", *options)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._folder.cleanup()


class NginxService(Service):
    """A service behind nginx, as deploy/nginx.conf has it; callers see nginx's port.

    ``buffering`` is what the file advises against: bodies and answers wait in nginx.
    """

    def __init__(self, *options: str, buffering: bool = False, unix: bool = False) -> None:
        super().__init__()
        self._behind = (UnixService if unix else Service)(*options)
        self._buffering = buffering
        self._folder = tempfile.TemporaryDirectory(prefix="round-nginx-")
        self.nginx_log = Path(self._folder.name) / "error.log"

    def __enter__(self) -> NginxService:
        nginx = shutil.which("nginx", path=_PATH)
        assert nginx, "nginx is not installed; on Debian: apt-get install nginx-light"
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(self._folder))
            stack.enter_context(self._behind)
            self.process, self.log = self._behind.process, self._behind.log
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            configuration = folder / "nginx.conf"
            configuration.write_text(self._configuration())
            # As root it would become somebody who may not write here.
            settings = f"daemon off; pid {folder}/pid;" + " user root;" * (os.geteuid() == 0)
            command = [nginx, "-p", folder, "-c", configuration, "-e", self.nginx_log]
            self._nginx = subprocess.Popen([*command, "-g", settings])
            stack.callback(self._stop_nginx)
            self._wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def _configuration(self) -> str:
        text = CONFIGURATION.read_text()
        places = (
            f"{kind}_temp_path {self._folder.name}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = _replaced(text, "http {\n", "\n    ".join(("http {", *places, "")))
        behind = self._behind
        upstream = f"unix:{behind.uds}" if behind.uds else f"127.0.0.1:{behind.port}"
        text = _replaced(text, "server 127.0.0.1:8000 ", f"server {upstream} ")
        text = _replaced(text, "listen 80;", f"listen 127.0.0.1:{self.port};")
        if self._buffering:
            text = _replaced(text, "proxy_buffering off;", "proxy_buffering on;")
            text = _replaced(text, "proxy_request_buffering off;", "proxy_request_buffering on;")
        return text

    def _stop_nginx(self) -> None:
        """End nginx when its requests are over; it must not have found anything wrong."""
        self._nginx.send_signal(signal.SIGQUIT)
        assert self._nginx.wait(60) == 0
        found = re.findall(r"^.*\[(?:emerg|alert|crit)\].*$", self.nginx_log.read_text(), re.M)
        assert not found, "\n".join(found)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)


def _replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"deploy/nginx.conf has not just one {old!r}"
    return text.replace(old, new)


#: How to start a service with options, by what stands before it.
Front = Callable[..., Service]
DIRECT: Front = Service
FRONTS: dict[str, Front] = {
    "nginx": NginxService,
    "nginx-buffering": partial(NginxService, buffering=True),
    "nginx-unix": partial(NginxService, unix=True),
    "unix": UnixService,
}
