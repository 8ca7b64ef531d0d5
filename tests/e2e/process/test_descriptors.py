"""More connections than file descriptors: health and metrics respond, new ones have their turn."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.services.server import Reply, Service, until
from support.services.variants import DESCRIPTORS, FewDescriptorsService, FewDescriptorsTlsService

TOO_MANY = 2 * DESCRIPTORS
METRICS = ("--metrics-port", "0")


@contextlib.contextmanager
def held(service: Service, count: int, sent: bytes) -> Iterator[None]:
    """Connections that send that and no more."""
    with ExitStack() as stack:
        for _ in range(count):
            sock = socket.create_connection((service.host, service.port), 60)
            stack.enter_context(sock).sendall(sent)
        yield


@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "workers"])
@pytest.mark.parametrize(
    ("kind", "head"),
    [(FewDescriptorsService, b"GET /livez HTTP/1.1\r\nHo"), (FewDescriptorsTlsService, b"")],
    ids=["plain", "tls"],
)
def test_too_many_connections_are_refused_and_health_responds(
    kind: type[Service], head: bytes, workers: int
) -> None:
    """Each worker has a limit of its own."""
    with kind(*METRICS, "--workers", str(workers)) as service:
        with held(service, TOO_MANY * workers, head):
            least = (TOO_MANY - DESCRIPTORS) * workers
            until(lambda: service.beside.metric("connections_refused_total") > least)
            assert service.beside.get("/livez").status == 200
            assert service.beside.get("/readyz").status == 200
        # As soon as there is room, it serves.
        assert service.get("/livez").status == 200
    told = f"WARNING:  too many connections for {DESCRIPTORS} file descriptors"
    assert service.counted(told) == workers


def test_connections_that_are_idle_longest_make_room_for_new_ones() -> None:
    with FewDescriptorsService(*METRICS, "--keep-alive", "300") as service, ExitStack() as stack:
        for _ in range(TOO_MANY):
            connection = stack.enter_context(contextlib.closing(service.connection()))
            connection.request("GET", "/livez")
            assert Reply.read(connection).status == 200
        assert service.beside.metric("connections_refused_total") == 0


def test_many_connections_to_the_port_of_metrics_leave_the_service_its_files() -> None:
    with FewDescriptorsService(*METRICS) as service:
        with held(service.beside, TOO_MANY, b"GET"):
            service.logged("too many connections")
            assert service.descriptors() < DESCRIPTORS
        assert service.get("/livez").status == 200
