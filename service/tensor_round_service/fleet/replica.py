"""A replica: an actor that runs the service as its child process, on the node that Ray chose."""

from __future__ import annotations

import os
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from typing import TypedDict

import ray
from prometheus_client.parser import text_string_to_metric_families

from ..engine.memory import memory_limit
from ..process.healthcheck import is_ready
from ..process.listener import listen, url
from ..settings import PREFIX
from .options import Specification

_METRICS_SECONDS = 2.0
_IN_FLIGHT = "tensor_round_bytes_in_flight"


class Status(TypedDict):
    """What a replica says of itself: plain data, which a controller of another version can read."""

    revision: str
    node: str
    url: str
    ready: bool
    draining: bool
    #: Bytes in flight, as a part of the budget.
    load: float
    #: Of the service's process; None while it runs.
    exit_code: int | None


class Replica:
    """The class of the actor. The service ends with it: see :mod:`.child`."""

    def __init__(self, specification: Specification) -> None:
        host = ray.util.get_node_ip_address()
        port, self._metrics_port = _free_ports(host)
        budget = memory_limit() // 2 * _share_of_node(specification)
        self._environment = {
            f"{PREFIX}MAX_BYTES_IN_FLIGHT": str(int(budget)),
            **specification.environment,
            f"{PREFIX}HOST": host,
            f"{PREFIX}PORT": str(port),
            f"{PREFIX}METRICS_PORT": str(self._metrics_port),
        }
        scheme = "https" if self._environment.get(f"{PREFIX}SSL_CERTFILE") else "http"
        self._status: Status = {
            "revision": specification.revision,
            "node": host,
            "url": url(scheme, host, port),
            "ready": False,
            "draining": False,
            "load": 0.0,
            "exit_code": None,
        }
        inherited = {k: v for k, v in os.environ.items() if not k.upper().startswith(PREFIX)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child"],
            env={**inherited, **self._environment},
            stdin=subprocess.PIPE,
        )

    def status(self) -> Status:
        """Check the service, and measure its load."""
        try:
            self._status["ready"] = is_ready(self._environment)
            self._status["load"] = self._load()
        except (OSError, HTTPException):
            self._status["ready"] = False
        self._status["exit_code"] = self._process.poll()
        return self._status

    def drain(self) -> None:
        """Begin to drain the service; the status tells when it has ended."""
        self._status["draining"] = True
        self._process.terminate()

    def _load(self) -> float:
        metrics = HTTPConnection(self._status["node"], self._metrics_port, _METRICS_SECONDS)
        try:
            metrics.request("GET", "/metrics")
            response = metrics.getresponse()
            if response.status != 200:
                raise HTTPException(f"/metrics responded with {response.status}")
            text = response.read().decode()
        finally:
            metrics.close()
        families = text_string_to_metric_families(text)
        values = {family.name: family.samples[0].value for family in families if family.samples}
        return values[_IN_FLIGHT] / values[f"{_IN_FLIGHT}_limit"]


def _free_ports(host: str) -> list[int]:
    """Two ports; if another process takes one before the service does, the replica is replaced."""
    sockets = [*listen(host, 0), *listen(host, 0)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def _share_of_node(specification: Specification) -> float:
    """The part of its node that a replica may use, of the CPUs or of the GPUs."""
    here = ray.get_runtime_context().get_node_id()
    resources = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == here)
    cpus: float = specification.cpus / resources.get("CPU", specification.cpus)
    gpus: float = specification.gpus / resources.get("GPU", 1.0)
    return min(1.0, max(cpus, gpus))
