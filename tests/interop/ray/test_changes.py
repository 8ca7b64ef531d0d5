"""Updates, scaling and drains under load: no result is wrong, none is lost."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import ray
from ray.cluster_utils import Cluster

from support.http.responses import Answers, message, tensor
from support.services.fleet import Fleet, services
from support.services.fleet_load import Load


def half_sent(url: str, nbytes: int) -> tuple[socket.socket, bytes]:
    """A connection with a request whose second half is still to be sent."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    request = message(tensor(nbytes))
    sock.sendall(request[: len(request) // 2])
    return sock, request[len(request) // 2 :]


def test_an_update_replaces_all_replicas_and_the_controller(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "2") as fleet, Load(fleet.url) as load:
        load.more()
        before, old = set(fleet.urls()), fleet.process
        fleet.process = fleet.start("--min-replicas", "2", DRAIN_TIMEOUT="20")
        assert old.wait(30) == 0
        fleet.wait_for(fleet.is_ready, "the directory is back")
        fewest = 2
        deadline = time.monotonic() + 60
        while before & set(urls := fleet.urls()):
            assert time.monotonic() < deadline, "".join(fleet.log)
            fewest = min(fewest, len(urls))
            time.sleep(0.02)
        assert fewest == 2
        fleet.wait_for_replicas(2)
        fleet.wait_for(lambda: len(services()) == 2, "the others have ended")
        load.more()


def test_an_update_of_a_full_cluster(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "3") as fleet, Load(fleet.url) as load:
        before, old = set(fleet.urls()), fleet.process
        fleet.process = fleet.start("--min-replicas", "3", DRAIN_TIMEOUT="20")
        assert old.wait(30) == 0
        fleet.wait_for(fleet.is_ready, "the directory is back")
        fleet.wait_for(lambda: not before & set(fleet.urls()), "all are replaced", 90)
        fleet.wait_for_replicas(3)
        load.more()


def test_replicas_are_added_and_removed_with_the_bytes_in_flight(cluster: Cluster) -> None:
    options = ("--max-replicas", "3", "--scale-down-after", "4")
    limits = {"MAX_BYTES_IN_FLIGHT": "16MiB", "RECEIVE_TIMEOUT": "60"}
    with Fleet(cluster.address, *options, **limits) as fleet, ExitStack() as stack:
        (first,) = fleet.urls()
        load = stack.enter_context(Load(fleet.url))
        load.more()
        with half_sent(first, 12 << 20)[0]:
            fleet.wait_for_replicas(2)
            second = next(url for url in fleet.urls() if url != first)
            with half_sent(second, 12 << 20)[0]:
                fleet.wait_for_replicas(3)
                load.more()
        fleet.wait_for_replicas(1)
        load.more()
        fleet.wait_for(lambda: len(services()) == 1, "the others have ended")


def test_sigterm_drains_all_replicas(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "2") as fleet:
        begun = [half_sent(url, 1 << 20) for url in fleet.urls()]
        stopping = threading.Thread(target=fleet.stop)
        stopping.start()
        time.sleep(1.5)
        assert stopping.is_alive()
        for sock, rest in begun:
            with sock:
                sock.sendall(rest)
                Answers(sock).expect(tensor(1 << 20))
        stopping.join(30)
        assert fleet.process.poll() == 0
    ray.init(cluster.address, namespace="tensor-round", logging_level="WARNING")
    try:
        assert not ray.util.list_named_actors()
    finally:
        ray.shutdown()
