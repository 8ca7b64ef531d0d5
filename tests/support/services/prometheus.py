"""A real Prometheus, with the configuration of ``deploy/monitoring``, that scrapes services."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from support.monitoring import ALERTS, MONITORING

#: Seconds between two scrapes.
SCRAPE_SECONDS = 1


class Prometheus:
    """Scrapes the services at these addresses each second; a context manager."""

    def __init__(self, *targets: str) -> None:
        self._targets = targets
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def __enter__(self) -> Prometheus:
        self._folder = tempfile.TemporaryDirectory()
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = dict.fromkeys(
            ("scrape_interval", "evaluation_interval"), f"{SCRAPE_SECONDS}s"
        )
        config["rule_files"] = [str(ALERTS)]
        (scrape,) = config["scrape_configs"]
        scrape["static_configs"] = [{"targets": list(self._targets)}]
        path = Path(self._folder.name) / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        command = [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={self._folder.name}/data",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while not self._is_ready():
            assert self._process.poll() is None, "Prometheus did not start"
            assert time.monotonic() < deadline, "Prometheus is not ready"
            time.sleep(0.1)
        return self

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str | float) -> Any:
        """The data at a path of the HTTP API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now, each with its labels and its value."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def query_range(
        self, expression: str, start: float, end: float, step: float
    ) -> list[dict[str, Any]]:
        """The series of an expression between two times, in seconds since 1970."""
        times = {"start": start, "end": end, "step": step}
        found: list[dict[str, Any]] = self.get("query_range", query=expression, **times)["result"]
        return found

    def __exit__(self, *fault: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()
